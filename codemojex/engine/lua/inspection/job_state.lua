--- job_state: where a job is
--- Keys: P
--- Args: id
--- Returns: 'pending' (flat or in a lane), 'active', 'scheduled', 'dead', 'awaiting_children', 'unknown' (a row in no
---   set), 'absent'
--- Refuses: nothing
local P, id = KEYS[1], ARGV[1]
local state, g = unpack(redis.call('HMGET', P .. 'job:' .. id, 'state', 'group'))
for _, set in ipairs({ 'pending', 'active', 'schedule', 'dead' }) do
  if redis.call('ZSCORE', P .. set, id) then return set == 'schedule' and 'scheduled' or set end
end
if g and redis.call('ZSCORE', P .. 'g:' .. g .. ':pending', id) then return 'pending' end
if state == 'awaiting_children' then return state end
return state and 'unknown' or 'absent'
