--- cache_frame: the frame of a near-cache entry, and the log that tells every process of a change
--- Keys: whatever the command passes on
--- Args: none of its own
--- Returns: frame_head(raw) -> {kind, version} or nil when `raw` is no well-formed frame;
---   version_less(a, b) compares 20-digit versions as numbers, never by locale;
---   frame_make(kind, version, ttl_ms, payload) -> raw;
---   cache_log(log, id, version, length, ttl_ms) appends under the id <birth of the log>-<dense counter>, so that a
---     reader sees from the ids alone whether it missed one, or whether the log began anew.
---   Frame: 'EC1', kind (V value, N known to be absent, T tombstone), version (20 digits), absolute expiry in server
---     ms (16 digits), payload.
--- Refuses: nothing
local function cache_now()
  local t = redis.call('TIME')
  return t[1] * 1000 + math.floor(t[2] / 1000)
end

local function frame_head(raw)
  local kind, version = string.match(string.sub(raw, 1, 40), '^EC1([VNT])(%d%d%d%d%d%d%d%d%d%d%d%d%d%d%d%d%d%d%d%d)%d+$')
  if not kind or #raw < 40 then return nil end
  return {kind = kind, version = version}
end

local function version_less(a, b)
  local ahigh, bhigh = tonumber(string.sub(a, 1, 10)), tonumber(string.sub(b, 1, 10))
  if ahigh ~= bhigh then return ahigh < bhigh end
  return tonumber(string.sub(a, 11)) < tonumber(string.sub(b, 11))
end

local function version_next(a)
  local low = tonumber(string.sub(a, 11)) + 1
  if low < 1e10 then return string.sub(a, 1, 10) .. string.format('%010.0f', low) end
  return string.format('%010.0f0000000000', tonumber(string.sub(a, 1, 10)) + 1)
end

local function frame_make(kind, version, ttl_ms, payload)
  return 'EC1' .. kind .. version .. string.format('%016.0f', cache_now() + ttl_ms) .. payload
end

local function cache_log(log, id, version, length, ttl_ms)
  local last = redis.call('XREVRANGE', log, '+', '-', 'COUNT', 1)[1]
  local birth = last and string.match(last[1], '^(%d+)') or string.format('%.0f', cache_now())
  redis.call('XADD', log, 'MAXLEN', '=', length, birth .. '-*', 'id', id, 'v', version)
  redis.call('PEXPIRE', log, ttl_ms)
end
