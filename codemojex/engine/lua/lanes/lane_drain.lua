--- lane_drain: delete the waiting jobs of a lane; what is in flight and the lane's settings stay
--- Keys: P
--- Args: lane, limit
--- Returns: how many jobs were deleted; fewer than limit means the lane is empty
--- Refuses: nothing
--- Include: lane_visit, erase
local P, g = KEYS[1], ARGV[1]
local ids = redis.call('ZPOPMIN', P .. 'g:' .. g .. ':pending', ARGV[2])
lane_visit(P, g)
lane_freed(P, g, lane_active(P, g), false)
for i = 1, #ids, 2 do erase(P, ids[i]) end
return #ids / 2
