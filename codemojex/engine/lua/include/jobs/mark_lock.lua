--- mark_lock: the two marks of a held job, both with a life time of their own
--- Keys: P
--- Args: id, token, ttl (ms)
--- Returns: mark_lock(P, id, token, ttl): the key `:lock` and the row's field `lock`
--- Refuses: nothing
local function mark_lock(P, id, token, ttl)
  local row = P .. 'job:' .. id
  redis.call('SET', row .. ':lock', token, 'PX', ttl)
  redis.call('HSET', row, 'lock', token)
  redis.call('HPEXPIRE', row, ttl, 'FIELDS', 1, 'lock')
end
