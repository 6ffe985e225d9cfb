--- lane_visit: an operator's change to a lane, after which its place in the ring is set right
--- Keys: P
--- Args: g
--- Returns: lane_visit(P, g): scans the ring, which only operators' verbs may do
--- Refuses: nothing
--- Include: due
local function lane_visit(P, g)
  local limit, active = tonumber(redis.call('HGET', P .. 'glimit', g)), lane_active(P, g)
  local served = redis.call('EXISTS', P .. 'g:' .. g .. ':pending') == 1
    and redis.call('SISMEMBER', P .. 'paused', g) == 0
    and not redis.call('ZSCORE', P .. 'resting', g)
    and (not limit or active < limit)
  if not served then
    ring_exit(P, g)
  elseif not redis.call('LPOS', P .. 'ring', g) then
    ring_enter(P, g, active)
  end
end
