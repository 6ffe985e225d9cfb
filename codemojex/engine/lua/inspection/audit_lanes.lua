--- audit_lanes: compare some lanes with what must hold, and set them right if asked
--- Keys: P
--- Args: repair (1 or 0), then at most 500 lanes
--- Returns: flat list of lane, what is wrong
--- Refuses: nothing
--- Include: lane_visit
local P, repair = KEYS[1], ARGV[1] == '1'
local found, times = {}, {}
for _, g in ipairs(redis.call('LRANGE', P .. 'ring', 0, -1)) do times[g] = (times[g] or 0) + 1 end
local function wrong(g, what)
  found[#found + 1] = g
  found[#found + 1] = what
end
for i = 2, #ARGV do
  local g = ARGV[i]
  local served, active = lane_served(P, g)
  local n = times[g] or 0
  if n > 1 then wrong(g, 'ring: stands there more than once') end
  if served and n == 0 then wrong(g, 'ring: has work and a right to be served, but does not stand there') end
  if not served and n > 0 then wrong(g, 'ring: stands there without a right to be served') end
  if repair then
    lane_visit(P, g, n)
    -- A peer that ends a lane's last job leaves our default ceiling: no finding, and a pump's visit takes it away.
    if active == 0 and redis.call('EXISTS', P .. 'g:' .. g .. ':pending') == 0 then forget_default(P, g) end
  end
end
return found
