--- lane_depths: the backlogs of some lanes
--- Keys: P
--- Args: lanes, at most 1000
--- Returns: per lane: its depth, its oldest id ('' when empty)
--- Refuses: nothing
local P, out = KEYS[1], {}
for _, g in ipairs(ARGV) do
  local lane = P .. 'g:' .. g .. ':pending'
  out[#out + 1] = redis.call('ZCARD', lane)
  out[#out + 1] = redis.call('ZRANGE', lane, 0, 0)[1] or ''
end
return out
