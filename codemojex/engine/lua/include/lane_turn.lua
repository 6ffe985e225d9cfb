--- lane_turn: the next lane of the rota has its turn
--- Keys: P
--- Args: c: the claim under way (see claim)
--- Returns: lane_turn(P, c): up to `weight` heads of one lane; the lane then stands at the tail of the ring or has
---   left it
--- Refuses: nothing
--- Include: due, limiter, hand_out
-- A weighted turn that the claim's own bounds cut short is kept: the lane goes back to the head with its credit.
local function lane_pace(P, g, c)
  if not c.paced then return nil end
  local own = redis.call('HGET', P .. 'grate', g)
    or c.meta.lane_kinds and redis.call('HGET', P .. 'meta', 'lane_rate:' .. string.sub(g, 1, 3))
  if own then
    local rate, burst = string.match(own, '^(.+):(.+)$')
    return tonumber(rate), tonumber(burst)
  end
  return c.meta.lane_rate, c.meta.lane_burst or 1
end

local function lane_weight(P, g, c)
  if c.credit_lane == g then return c.credit end
  return c.weighted and math.max(1, tonumber(redis.call('HGET', P .. 'gweight', g)) or 1) or 1
end

local function lane_turn(P, c)
  local g = redis.call('LMOVE', P .. 'ring', P .. 'ring', 'LEFT', 'RIGHT')
  local lane = P .. 'g:' .. g .. ':pending'
  local depth = redis.call('ZCARD', lane)
  local turn = c.whole and depth or lane_weight(P, g, c)
  local limit = tonumber(redis.call('HGET', P .. 'glimit', g))
  local active = limit and tonumber(redis.call('HGET', P .. 'gactive', g)) or 0
  local rate, burst = lane_pace(P, g, c)
  local units, start = math.huge, 0
  if rate then units, start = gcra(redis.call('GET', P .. 'pace:' .. g), c.now, rate, burst) end
  local rests = c.resting and redis.call('ZSCORE', P .. 'resting', g)
  local quota = rests and 0 or math.min(turn, limit and limit - active or turn, units)
  local k = 0
  while k < quota and depth > 0 and c.served < c.want and c.bytes < c.max_bytes and c.steps < c.max_steps do
    depth = depth - 1
    c.steps = c.steps + 1
    if hand_out(P, redis.call('ZPOPMIN', lane)[1], g, c) then
      k = k + 1
      c.served = c.served + 1
    end
  end
  if k > 0 then active = redis.call('HINCRBY', P .. 'gactive', g, k) end
  if rate and k > 0 then
    start = start + k * 1000 / rate
    gcra_save(P .. 'pace:' .. g, c.now, start)
  end
  local tired = rate and units - k < 1
  if depth == 0 or rests or tired or (limit and active >= limit) then
    redis.call('RPOP', P .. 'ring')
    c.ring = c.ring - 1
    if depth > 0 and tired and not rests then
      redis.call('ZADD', P .. 'resting', c.now + gcra_wait(start, c.now, rate, burst), g)
    elseif depth == 0 and k == 0 then
      lane_freed(P, g, lane_active(P, g), false)
    end
  elseif k < turn then
    redis.call('LMOVE', P .. 'ring', P .. 'ring', 'RIGHT', 'LEFT')
    redis.call('SET', P .. 'credit', g .. ':' .. (turn - k), 'PX', 60000)
  end
end
