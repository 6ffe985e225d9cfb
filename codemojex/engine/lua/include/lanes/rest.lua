--- rest: a lane rests because it was told to, or because it is over its pace
--- Keys: P
--- Args: g, at (ms): until when
--- Returns: rest_told(P, g, at): a longer rest stays; rest_end(P, g): of either kind. Neither touches the ring
--- Refuses: nothing
-- `resting` holds the end of both kinds, `parked` that of a rest that was told: a change of the pace leaves it alone.
local function rest_told(P, g, at)
  local until_ms = string.format('%.0f', at)
  redis.call('ZADD', P .. 'resting', 'GT', until_ms, g)
  redis.call('ZADD', P .. 'parked', 'GT', until_ms, g)
end

local function rest_end(P, g)
  redis.call('ZREM', P .. 'resting', g)
  redis.call('ZREM', P .. 'parked', g)
end
