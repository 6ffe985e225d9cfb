--- rota: the next lane of the ring, with what is known of it
--- Keys: P
--- Args: c: the claim under way (see claim)
--- Returns: next_head(P, c) -> lane; lane_weight(c, g); lane_pace(P, c, g) -> rate or nil, burst; put_back(P, c): the lanes
---   that were taken from the ring and may still be served stand in it again, in their order
--- Refuses: nothing
--- Include: pace
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
  return pace_near(c.meta, own or nil)
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
    -- When every lane of the ring has had its turn they come again in the same order, and the ring need not be asked.
    local again, known = #c.back == c.ring, #c.back == #c.heads
    if again then
      c.heads, c.head, c.back = c.back, 0, {}
    else
      put_back(P, c)
      c.heads = redis.call('LPOP', P .. 'ring', c.one_lane and 1 or c.want - c.served)
    end
    if not (again and known) then
      for field, key in pairs(c.hashes) do
        c[field] = redis.call('HMGET', P .. key, unpack(c.heads))
      end
    end
  end
  c.head = c.head + 1
  return c.heads[c.head]
end
