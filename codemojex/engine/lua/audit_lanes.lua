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
  local depth, active = redis.call('ZCARD', P .. 'g:' .. g .. ':pending'), lane_active(P, g)
  local limit = tonumber(redis.call('HGET', P .. 'glimit', g))
  local served = depth > 0 and redis.call('SISMEMBER', P .. 'paused', g) == 0
    and not redis.call('ZSCORE', P .. 'resting', g) and (not limit or active < limit)
  local n = times[g] or 0
  if n > 1 then wrong(g, 'ring: stands there more than once') end
  if served and n == 0 then wrong(g, 'ring: has work and a right to be served, but does not stand there') end
  if not served and n > 0 then wrong(g, 'ring: stands there without a right to be served') end
  if repair and n > 1 then ring_exit(P, g) end
  if repair and (n > 1 or served ~= (n > 0)) then lane_visit(P, g) end
  if depth == 0 and active == 0 and redis.call('SISMEMBER', P .. 'defaulted', g) == 1 then
    wrong(g, 'glimit: an idle lane keeps its default ceiling')
    if repair then lane_freed(P, g, 0, false) end
  end
end
return found
