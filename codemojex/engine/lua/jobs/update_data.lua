--- update_data: replace a job's payload
--- Keys: P
--- Args: id, payload
--- Returns: 1, or 0 when there is no such job
--- Refuses: nothing
local row = KEYS[1] .. 'job:' .. ARGV[1]
if redis.call('EXISTS', row) == 0 then return 0 end
redis.call('HSET', row, 'payload', ARGV[2])
return 1
