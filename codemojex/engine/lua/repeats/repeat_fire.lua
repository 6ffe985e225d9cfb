--- repeat_fire: fire slots of a repeated job and move it to its next slot, once among many processes
--- Keys: P
--- Args: name, the slot it stood at, its next slot ('' ends it), then the slots to fire (ms), at most 100
--- Returns: the ids of the jobs that were admitted; false when somebody else was first or it is not registered. A job's
---   id carries its slot's time and the number of the registration, so a slot has one id.
--- Refuses: nothing
--- Include: now, admit_one, mint_event, repeat_home
local P, name = KEYS[1], ARGV[1]
local record = P .. 'repeat:' .. name
local slot = tonumber(repeat_slot(P, name))
if not slot or slot ~= tonumber(ARGV[2]) then return false end
local r = redis.call('HMGET', record, 'template', 'lane', 'max_attempts', 'timeout', 'n')
if not r[1] then
  repeat_drop(P, name)
  return false
end
local n = r[5]
if not n then -- a peer registered it
  n = redis.call('HINCRBY', P .. 'meta', 'repeats', 1) % 65536
  redis.call('HSET', record, 'n', n)
end
local now, ids = now_ms(), {}
for i = 4, #ARGV do
  local ms = math.max(0, tonumber(ARGV[i]) - EVENT_EPOCH)
  local spec = {
    id = 'JOB' .. event_base62(ms, 1008 * 4096 + n), payload = r[1], lane = r[2] or nil, max_attempts = r[3] or nil,
    timeout = r[4] or nil,
  }
  if admit_one(P, now, spec) == 'enqueued' then ids[#ids + 1] = spec.id end
end
if ARGV[3] == '' then
  repeat_drop(P, name)
  redis.call('DEL', record)
else
  repeat_put(P, name, ARGV[3])
end
return ids
