--- lane_visit: a lane's place in the ring is set right
--- Keys: P
--- Args: g; times: how often it stands in the ring, by who has just read the whole of it, or nil
--- Returns: lane_served(P, g) -> whether it has work and a right to be served, jobs in flight; lane_visit(P, g, times) ->
---   what was wrong, or nil; scans the ring, which only operators' verbs and the pump may do
--- Refuses: nothing
--- Include: due
local function lane_served(P, g)
  local limit, active = tonumber(redis.call('HGET', P .. 'glimit', g)), lane_active(P, g)
  return redis.call('EXISTS', P .. 'g:' .. g .. ':pending') == 1
    and redis.call('SISMEMBER', P .. 'paused', g) == 0
    and not redis.call('ZSCORE', P .. 'resting', g)
    and (not limit or active < limit), active
end

local function lane_visit(P, g, times)
  local served, active = lane_served(P, g)
  times = times or #redis.call('LPOS', P .. 'ring', g, 'COUNT', 2)
  if times > 1 then ring_exit(P, g) end
  if served and times ~= 1 then
    ring_enter(P, g, active)
  elseif not served and times == 1 then
    ring_exit(P, g)
  end
  if times > 1 then return 'ring: stood there more than once' end
  if served and times == 0 then return 'ring: had work and a right to be served, but did not stand there' end
  if not served and times == 1 then return 'ring: stood there without a right to be served' end
end
