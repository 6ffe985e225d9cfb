--- lane_turn: the next lane of the rota has its turn
--- Keys: P
--- Args: c: the claim under way (see claim)
--- Returns: lane_turn(P, c) -> lane: up to `weight` heads of it go out, or what a claim before left of its turn
--- Refuses: nothing
--- Include: rota, ring, pace, hand_out
-- A claim that brings a ceiling gives it to a lane that has none, as an admission does with the queue's default.
local function lane_ceiling(P, c, g)
  local limit = c.limits and tonumber(c.limits[c.head])
  if limit or not c.lane_limit then return limit end
  redis.call('HSET', P .. 'glimit', g, c.lane_limit)
  redis.call('HSET', P .. 'gdefault', g, c.lane_limit)
  c.limits = c.limits or {}
  c.limits[c.head] = c.lane_limit
  return c.lane_limit
end

local function lane_turn(P, c)
  local g = next_head(P, c)
  local lane = P .. 'g:' .. g .. ':pending'
  local limit = lane_ceiling(P, c, g)
  local active = (c.actives and tonumber(c.actives[c.head]) or 0) + (c.seats[g] or 0)
  local rests = c.resting and redis.call('ZSCORE', P .. 'resting', g)
  local rate, burst = lane_pace(P, c, g)
  local units, start = math.huge
  if rate then units, start = pace_units(P, g, c.now, rate, burst) end
  local turn = c.whole and c.want or lane_weight(c, g)
  local quota = rests and 0 or math.min(turn, limit and limit - active or turn, units)
  local k, depth = 0, 1
  while k < quota and depth > 0 and c.served < c.want and c.bytes < c.max_bytes and c.steps < c.max_steps do
    local id = redis.call('ZPOPMIN', lane)[1]
    c.steps = c.steps + 1
    if id and hand_out(P, id, g, c) then
      k = k + 1
      c.served = c.served + 1
    end
    depth = id and redis.call('ZCARD', lane) or 0
  end
  if k > 0 then
    if not c.seats[g] then c.lanes[#c.lanes + 1] = g end
    c.seats[g] = (c.seats[g] or 0) + k
  end
  if rate and k > 0 then
    start = start + k * 1000 / rate
    pace_save(P, g, c.now, start, rate)
  end
  local tired = rate and units - k < 1
  if depth == 0 or rests or tired or (limit and active + k >= limit) then
    c.ring = c.ring - 1
    if depth == 0 and active + k == 0 then
      lane_freed(P, g, 0, false)
    elseif depth > 0 and tired and not rests then
      redis.call('ZADD', P .. 'resting', c.now + gcra_wait(start, c.now, rate, burst), g)
    end
  elseif k < turn and not c.whole then
    c.cut = g
    redis.call('SET', P .. 'credit', g .. ':' .. (turn - k), 'PX', 3600000)
  else
    c.back[#c.back + 1] = g
  end
  return g
end
