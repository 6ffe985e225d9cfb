--- log_read: lines of a job's log, oldest first
--- Keys: P
--- Args: id, first, last (as LRANGE counts)
--- Returns: a list of lines, also of a job that has completed since; -1 when there is neither a job nor a log
--- Refuses: nothing
local row = KEYS[1] .. 'job:' .. ARGV[1]
if redis.call('EXISTS', row, row .. ':logs') == 0 then return -1 end
return redis.call('LRANGE', row .. ':logs', ARGV[2], ARGV[3])
