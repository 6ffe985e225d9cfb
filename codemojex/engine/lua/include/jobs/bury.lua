--- bury: make a job a dead letter
--- Keys: P
--- Args: id, reason, parent: who hears of it (nil: nobody, or the caller tells them later), cause: what they hear (nil:
---   the reason)
--- Returns: bury(P, id, reason, parent, cause); the row must exist and stand in no other set
--- Refuses: nothing
--- Include: flow
function bury(P, id, reason, parent, cause) -- the local that `flow` declares
  redis.call('HSET', P .. 'job:' .. id, 'state', 'dead', 'last_error', reason)
  -- What was asked of this life ends with it: a peer's reprocess deletes `last_error` and nothing else.
  redis.call('HDEL', P .. 'job:' .. id, 'cancel', 'expires_at', 'lapsed')
  redis.call('ZADD', P .. 'dead', 0, id)
  redis.call('HINCRBY', P .. 'metrics:failed', 'count', 1)
  if parent then flow_failed(P, id, flow_link(P, id, parent), cause or reason) end
end
