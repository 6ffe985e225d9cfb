--- erase: remove a job with everything that hangs on its id
--- Keys: P
--- Args: id; the id must stand in no set any more
--- Returns: erase(P, id)
--- Refuses: nothing
--- Include: dedup
local function erase(P, id)
  local row = P .. 'job:' .. id
  local key = redis.call('HGET', row, 'dedup')
  if key then dedup_free(P, key, id) end
  redis.call('DEL', row, row .. ':logs', row .. ':lock')
end
