--- extend_one: renew one lease that is still held
--- Keys: P
--- Args: id, token, now, lease (ms)
--- Returns: extend_one(P, id, token, now, lease_ms) -> 'ok', 'stale', 'gone', or 'cancel:<reason>' for a lease that is renewed
---   although somebody asked to cancel the job
--- Refuses: nothing
--- Include: dedup
local function extend_one(P, id, token, now, lease_ms)
  local attempts, cancel, dedup, dedup_ms =
    unpack(redis.call('HMGET', P .. 'job:' .. id, 'attempts', 'cancel', 'dedup', 'dedup_ms'))
  if not attempts then return 'gone' end
  if attempts ~= token or not redis.call('ZSCORE', P .. 'active', id) then return 'stale' end
  redis.call('ZADD', P .. 'active', 'XX', now + lease_ms, id)
  if dedup and dedup_ms then dedup_keep(P, dedup, id, dedup_ms + lease_ms) end
  return cancel and 'cancel:' .. cancel or 'ok'
end
