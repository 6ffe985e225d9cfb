--- due: bring back what has waited long enough
--- Keys: P
--- Args: now, max: how many at most
--- Returns: wake_rested(P, now, max); promote_due(P, now, max) -> how many jobs were moved; next_due(P, now) -> ms until
---   the next job or lane, -1 when nothing waits
--- Refuses: nothing
--- Include: ring, rest
local function wake_rested(P, now, max)
  for _, g in ipairs(redis.call('ZRANGEBYSCORE', P .. 'resting', '-inf', now, 'LIMIT', 0, max)) do
    rest_end(P, g)
    ring_return(P, g)
  end
end

local function promote_due(P, now, max)
  local moved = 0
  for _, id in ipairs(redis.call('ZRANGEBYSCORE', P .. 'schedule', '-inf', now, 'LIMIT', 0, max)) do
    redis.call('ZREM', P .. 'schedule', id)
    local row = P .. 'job:' .. id
    if redis.call('EXISTS', row) == 1 then
      local g = redis.call('HGET', row, 'group')
      redis.call('HSET', row, 'state', 'pending')
      if g then
        lane_put(P, g, id, nil, false)
      else
        redis.call('ZADD', P .. 'pending', 0, id)
        wake(P)
      end
      moved = moved + 1
    end
  end
  return moved
end

local function next_due(P, now)
  local first
  for _, key in ipairs({ 'schedule', 'resting' }) do
    local due = tonumber(redis.call('ZRANGE', P .. key, 0, 0, 'WITHSCORES')[2])
    if due and (not first or due < first) then first = due end
  end
  return first and math.max(1, math.ceil(first - now)) or -1
end
