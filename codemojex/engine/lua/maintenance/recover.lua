--- recover: take back the jobs whose leases lapsed
--- Keys: P
--- Args: limit, max_stalled, lane ('' for all)
--- Returns: two lists: the ids that wait again, the ids that became dead letters because they lapsed max_stalled times
--- Refuses: nothing
--- Include: now, seats, bury, tally
local P = KEYS[1]
local max_stalled, only = tonumber(ARGV[2]), ARGV[3]
local back, dead = {}, {}
for _, id in ipairs(redis.call('ZRANGEBYSCORE', P .. 'active', '-inf', now_ms(), 'LIMIT', 0, ARGV[1])) do
  local row = P .. 'job:' .. id
  local state, g, parent, token, charged, counted =
    unpack(redis.call('HMGET', row, 'state', 'group', 'parent', 'attempts', 'failures', 'counted'))
  if only == '' or g == only then redis.call('ZREM', P .. 'active', id) end
  if state and (only == '' or g == only) then
    local active, was_full
    if g then active, was_full = release(P, g) end
    local failures = tally(charged, counted, token)
    if failures ~= charged then redis.call('HSET', row, 'failures', failures) end
    if redis.call('HINCRBY', row, 'stalled', 1) >= max_stalled then
      if g then lane_freed(P, g, active, was_full) end
      bury(P, id, 'stalled', parent)
      dead[#dead + 1] = id
    else
      redis.call('HSET', row, 'state', 'pending', 'lapsed', token or '', 'counted', token or '')
      if g then
        lane_put(P, g, id, active, was_full)
      else
        redis.call('ZADD', P .. 'pending', 0, id)
        wake(P)
      end
      back[#back + 1] = id
    end
  end
end
return { back, dead }
