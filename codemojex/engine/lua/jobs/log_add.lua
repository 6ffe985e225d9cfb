--- log_add: append a line to a job's log and keep the last ones
--- Keys: P
--- Args: id, line, keep (0: all), life time of the log from now on (ms)
--- Returns: how many lines there are, or -1 when there is no such job
--- Refuses: nothing
local row = KEYS[1] .. 'job:' .. ARGV[1]
if redis.call('EXISTS', row) == 0 then return -1 end
local log = row .. ':logs'
local length = redis.call('RPUSH', log, ARGV[2])
if ARGV[3] ~= '0' then
  redis.call('LTRIM', log, '-' .. ARGV[3], -1)
  length = math.min(length, tonumber(ARGV[3]))
end
redis.call('PEXPIRE', log, ARGV[4])
return length
