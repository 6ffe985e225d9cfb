--- cache_write: set an entry if it is newer, and tell every process
--- Keys: the entry, the fill lease, the coherence log
--- Args: mode, kind, version (20 digits), ttl_ms, payload, id, log length, log ttl_ms, token, expected version
---   put: a value or tombstone of that version, told to everybody
---   fill: what a loader brought; told only when it replaces an older value. 'N' goes over a tombstone only if that one
---     is 'expected', that is, was there before the load began
---   cas: over exactly the 'expected' version (zeros: nothing there); the new version is the next one, or the server's
---     time in ms where nothing was, so that versions never repeat
---   release: only gives the lease back
--- Returns: {'applied', version} or {'superseded', frame or false}
--- Refuses: nothing
--- Include: cache_frame
local entry, lease, log = KEYS[1], KEYS[2], KEYS[3]
local mode, kind, version, ttl_ms = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4])
local token, expected = ARGV[9], ARGV[10]
local raw = redis.pcall('GET', entry)
local head = type(raw) == 'string' and frame_head(raw)
if not head then raw = false end

local function release()
  if mode == 'put' or mode == 'cas' then
    redis.call('DEL', lease) -- whoever is filling began before this change
  elseif token ~= '' and redis.call('GET', lease) == token then
    redis.call('DEL', lease)
  end
end

local function newer()
  if mode == 'cas' then
    return (head and head.version or '00000000000000000000') == expected
  elseif not head then
    return true
  elseif kind == 'N' then
    return head.kind == 'N' or (head.kind == 'T' and head.version == expected)
  elseif version_less(head.version, version) then
    return true
  end
  return head.version == version and kind == 'V' and (head.kind ~= 'V' or mode == 'fill')
end

if mode == 'release' or not newer() then
  release()
  return {'superseded', raw}
end
if mode == 'cas' then
  version = head and version_next(head.version) or string.format('%020.0f', cache_now())
elseif kind == 'N' and head then
  version = head.version
end
redis.call('SET', entry, frame_make(kind, version, ttl_ms, ARGV[5]), 'PX', ttl_ms)
local replaced = head and head.kind ~= 'T' and version_less(head.version, version)
if mode ~= 'fill' or replaced then cache_log(log, ARGV[6], version, ARGV[7], ARGV[8]) end
release()
return {'applied', version}
