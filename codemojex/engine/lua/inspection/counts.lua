--- counts: how many of everything, at one instant
--- Keys: P
--- Args: none
--- Returns: now, pending (flat), active, schedule, dead, completed, failed, lanes in the ring, lanes paused, lanes
---   resting, lanes with jobs in flight, oldest flat id, next lease to lapse, queue paused, entries of the outbox, parents
---   that wait for children, since when the first of them waits, handlers that blocked their event loop
--- Refuses: nothing
--- Include: now
local P = KEYS[1]
local function total(name) return tonumber(redis.call('HGET', P .. 'metrics:' .. name, 'count')) or 0 end
return {
  now_ms(), redis.call('ZCARD', P .. 'pending'), redis.call('ZCARD', P .. 'active'),
  redis.call('ZCARD', P .. 'schedule'), redis.call('ZCARD', P .. 'dead'), total('completed'), total('failed'),
  redis.call('LLEN', P .. 'ring'),
  redis.call('SCARD', P .. 'paused'), redis.call('ZCARD', P .. 'resting'), redis.call('HLEN', P .. 'gactive'),
  redis.call('ZRANGE', P .. 'pending', 0, 0)[1] or '', redis.call('ZRANGE', P .. 'active', 0, 0, 'WITHSCORES')[2] or '',
  redis.call('HEXISTS', P .. 'meta', 'paused'), redis.call('LLEN', P .. 'flow:outbox'), redis.call('ZCARD', P .. 'parents'),
  redis.call('ZRANGE', P .. 'parents', 0, 0, 'WITHSCORES')[2] or '',
  total('blocked'),
}
