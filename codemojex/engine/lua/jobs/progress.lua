--- progress: note how far a job is and tell who listens
--- Keys: P
--- Args: id, progress, the event to publish
--- Returns: 1, or 0 when there is no such job
--- Refuses: nothing
local P, row = KEYS[1], KEYS[1] .. 'job:' .. ARGV[1]
if redis.call('EXISTS', row) == 0 then return 0 end
redis.call('HSET', row, 'progress', ARGV[2])
redis.call('PUBLISH', P .. 'events', ARGV[3])
return 1
