--- log_read: lines of a job's log, oldest first
--- Keys: P
--- Args: id, first, last (as LRANGE counts)
--- Returns: a list of lines, or -1 when there is no such job
--- Refuses: nothing
local row = KEYS[1] .. 'job:' .. ARGV[1]
if redis.call('EXISTS', row) == 0 then return -1 end
return redis.call('LRANGE', row .. ':logs', ARGV[2], ARGV[3])
