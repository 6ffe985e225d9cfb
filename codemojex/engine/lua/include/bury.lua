--- bury: make a job a dead letter
--- Keys: P
--- Args: id, reason
--- Returns: bury(P, id, reason); the row must exist and stand in no other set
--- Refuses: nothing
local function bury(P, id, reason)
  redis.call('HSET', P .. 'job:' .. id, 'state', 'dead', 'last_error', reason)
  redis.call('ZADD', P .. 'dead', 0, id)
  redis.call('HINCRBY', P .. 'metrics:failed', 'count', 1)
end
