--- drain: delete waiting flat jobs
--- Keys: P
--- Args: set ('pending' or 'schedule'), limit
--- Returns: how many jobs were deleted; fewer than limit means the set is empty
--- Refuses: nothing
--- Include: erase
local P = KEYS[1]
local ids = redis.call('ZPOPMIN', P .. ARGV[1], ARGV[2])
for i = 1, #ids, 2 do erase(P, ids[i]) end
return #ids / 2
