--- reprocess: give a dead letter another life, in its lane
--- Keys: P
--- Args: id
--- Returns: 1, or 0 when there is no such job; the token goes on, failures and lapsed leases
---   start at zero
--- Refuses: EMQSTATE not dead
--- Include: due
local P, id = KEYS[1], ARGV[1]
local row = P .. 'job:' .. id
if redis.call('EXISTS', row) == 0 then return 0 end
if redis.call('ZREM', P .. 'dead', id) == 0 then return redis.error_reply('EMQSTATE not dead') end
redis.call('HDEL', row, 'last_error', 'failures', 'stalled', 'lapsed', 'expires_at', 'cancel')
local g, token = unpack(redis.call('HMGET', row, 'group', 'attempts'))
redis.call('HSET', row, 'state', 'pending', 'counted', token or '')
if g then
  lane_put(P, g, id, nil, false)
else
  redis.call('ZADD', P .. 'pending', 0, id)
  wake(P)
end
return 1
