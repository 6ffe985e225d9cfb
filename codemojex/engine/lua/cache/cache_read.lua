--- cache_read: read an entry, and lease the right to fill it when there is no value
--- Keys: the entry, the fill lease
--- Args: token (empty: no lease wanted), lease_ms
--- Returns: {frame or false, remaining ms, 'lease' | 'wait' | ''}; a corrupt frame is dropped and reads as absent
--- Refuses: nothing
--- Include: cache_frame
local raw = redis.pcall('GET', KEYS[1])
local head = type(raw) == 'string' and frame_head(raw)
if not head and raw then redis.call('UNLINK', KEYS[1]) end
local frame = head and raw or false
if ARGV[1] == '' or (head and head.kind ~= 'T') then
  return {frame, redis.call('PTTL', KEYS[1]), ''}
end
local leased = redis.call('SET', KEYS[2], ARGV[1], 'NX', 'PX', ARGV[2])
return {frame, redis.call('PTTL', KEYS[1]), leased and 'lease' or 'wait'}
