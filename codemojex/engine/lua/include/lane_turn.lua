--- lane_turn: the next lane of the rota has its turn
--- Keys: P
--- Args: c: the claim under way (see claim)
--- Returns: lane_turn(P, c): up to `weight` heads of one lane go out; put_back(P, c): the lanes that were taken from
---   the ring and may still be served stand in it again, in their order
--- Refuses: nothing
--- Include: ring, limiter, hand_out
-- Lanes are taken from the ring in batches, with what is known of them, so that a turn costs few commands of its own.

local function lane_weight(c, g)
  if c.credit_lane == g then return c.credit end
  return c.weights and math.max(1, tonumber(c.weights[c.head]) or 1) or 1
end

-- The nearest setting counts: the lane's own, its kind's, the default.
local function lane_pace(P, c, g)
  local own = c.paces and c.paces[c.head]
  if not own and c.meta.lane_kinds then
    local kind = string.sub(g, 1, 3)
    if c.kinds[kind] == nil then c.kinds[kind] = redis.call('HGET', P .. 'meta', 'lane_rate:' .. kind) end
    own = c.kinds[kind]
  end
  if own then
    local rate, burst = string.match(own, '^(.+):(.+)$')
    return tonumber(rate), tonumber(burst)
  end
  return c.meta.lane_rate, c.meta.lane_burst or 1
end

local function put_back(P, c)
  local front = {}
  for i = #c.heads, c.head + 1, -1 do front[#front + 1] = c.heads[i] end
  -- A weighted turn that the claim's own bounds cut short is kept: the lane stays first, with its credit.
  if c.cut then front[#front + 1] = c.cut end
  if #c.back > 0 then redis.call('RPUSH', P .. 'ring', unpack(c.back)) end
  if #front > 0 then redis.call('LPUSH', P .. 'ring', unpack(front)) end
  c.heads, c.head, c.back, c.cut = {}, 0, {}, nil
end

local function next_head(P, c)
  if c.head == #c.heads then
    put_back(P, c)
    c.heads = redis.call('LPOP', P .. 'ring', c.one_lane and 1 or c.want - c.served)
    for field, key in pairs(c.hashes) do
      c[field] = redis.call('HMGET', P .. key, unpack(c.heads))
    end
  end
  c.head = c.head + 1
  return c.heads[c.head]
end

local function lane_turn(P, c)
  local g = next_head(P, c)
  local lane = P .. 'g:' .. g .. ':pending'
  local limit = c.limits and tonumber(c.limits[c.head])
  local active = (c.actives and tonumber(c.actives[c.head]) or 0) + (c.seats[g] or 0)
  local rests = c.resting and redis.call('ZSCORE', P .. 'resting', g)
  local rate, burst = lane_pace(P, c, g)
  local units, start = math.huge, 0
  if rate then units, start = gcra(redis.call('GET', P .. 'pace:' .. g), c.now, rate, burst) end
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
    gcra_save(P .. 'pace:' .. g, c.now, start)
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
    redis.call('SET', P .. 'credit', g .. ':' .. (turn - k), 'PX', 60000)
  else
    c.back[#c.back + 1] = g
  end
end
