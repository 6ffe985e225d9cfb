--- follow: a lane takes up a setting that was changed while it rested or was busy
--- Keys: P
--- Args: now, m: the table of read_meta, g
--- Returns: follow_pace(P, now, m, g): its rest becomes that of its present pace, or ends; follow_default(P, g) -> whether
---   the ceiling that it has by default changed: it becomes the present default, and goes with an idle lane. The
---   caller visits the lane
--- Refuses: nothing
--- Include: ring, rest, pace
local function follow_pace(P, now, m, g)
  local rests = tonumber(redis.call('ZSCORE', P .. 'resting', g))
  if not rests then return end
  local ends = tonumber(redis.call('ZSCORE', P .. 'parked', g)) or 0
  local rate, burst = pace_of(P, m, g)
  if rate then
    local units, start = pace_units(P, g, now, rate, burst)
    if units < 1 then ends = math.max(ends, now + gcra_wait(start, now, rate, burst)) end
  end
  if ends <= now then
    rest_end(P, g)
  elseif math.abs(ends - rests) > 2 then -- the same pace may be reckoned again with a millisecond's difference
    redis.call('ZADD', P .. 'resting', string.format('%.0f', ends), g)
    wake(P) -- who waits for the next lane may have to wait for another time
  end
end

local function follow_default(P, g)
  local written = redis.call('HGET', P .. 'gdefault', g)
  if not written then return false end
  local idle = redis.call('EXISTS', P .. 'g:' .. g .. ':pending') == 0 and lane_active(P, g) <= 0
  local default = redis.call('HGET', P .. 'meta', 'lane_limit')
  if idle or not default or redis.call('HGET', P .. 'glimit', g) ~= written then
    forget_default(P, g)
  elseif default ~= written then
    redis.call('HSET', P .. 'glimit', g, default)
    redis.call('HSET', P .. 'gdefault', g, default)
  else
    return false
  end
  return true
end
