--- extend_one: renew one lease that is still held
--- Keys: P
--- Args: id, token, deadline (ms)
--- Returns: extend_one(P, id, token, deadline) -> 'ok', 'stale', 'gone', or 'cancel:<reason>' for a lease that is renewed
---   although somebody asked to cancel the job
--- Refuses: nothing
local function extend_one(P, id, token, deadline)
  local attempts, cancel = unpack(redis.call('HMGET', P .. 'job:' .. id, 'attempts', 'cancel'))
  if not attempts then return 'gone' end
  if attempts ~= token or not redis.call('ZSCORE', P .. 'active', id) then return 'stale' end
  redis.call('ZADD', P .. 'active', 'XX', deadline, id)
  return cancel and 'cancel:' .. cancel or 'ok'
end
