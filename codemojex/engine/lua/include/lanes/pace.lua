--- pace: a lane's own budget, a token bucket of its own
--- Keys: P
--- Args: m: the table of read_meta; own: what stands in `grate` for the lane, or nil
--- Returns: pace_near(m, own) -> rate or nil, burst: the nearest setting; pace_of(P, m, g) -> the same, looked up;
---   pace_units(P, g, now, rate, burst) -> units, start; pace_save(P, g, now, tat, rate)
--- Refuses: nothing
--- Include: limiter
-- `own` is the lane's setting or else its kind's, as text.
local function pace_near(m, own)
  if own then
    local rate, burst = string.match(own, '^(.+):(.+)$')
    return tonumber(rate), tonumber(burst)
  end
  return m.lane_rate, m.lane_burst or 1
end

local function pace_of(P, m, g)
  local own = redis.call('HGET', P .. 'grate', g)
  if not own and m.lane_kinds then own = redis.call('HGET', P .. 'meta', 'lane_rate:' .. string.sub(g, 1, 3)) end
  return pace_near(m, own or nil)
end

local function pace_save(P, g, now, tat, rate)
  redis.call('SET', P .. 'pace:' .. g, string.format('%.4f:%.14g', tat, rate), 'PX', math.max(1, math.ceil(tat - now)))
end

-- The arrival time stands there with the rate that it was reckoned under: what is spent is kept in units, so another
-- rate does not keep the old one's wait.
local function pace_units(P, g, now, rate, burst)
  local tat, under = string.match(redis.call('GET', P .. 'pace:' .. g) or '', '^([^:]+):?(.*)$')
  tat, under = tonumber(tat), tonumber(under)
  if tat and tat > now and under and math.abs(under - rate) > rate * 1e-9 then -- the text has fourteen digits
    tat = now + (tat - now) * under / rate
    pace_save(P, g, now, tat, rate)
  end
  return gcra(tat, now, rate, burst)
end
