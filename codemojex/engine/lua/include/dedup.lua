--- dedup: the life of a producer's idempotency key after admission
--- Keys: P
--- Args: key, id, ms
--- Returns: dedup_keep(P, key, id, ms): it lives `ms` from now on; dedup_free(P, key, id); both only while it points
---   at id
--- Refuses: nothing
local function dedup_keep(P, key, id, ms)
  if redis.call('GET', P .. 'de:' .. key) == id then redis.call('PEXPIRE', P .. 'de:' .. key, ms) end
end

local function dedup_free(P, key, id)
  if redis.call('GET', P .. 'de:' .. key) == id then redis.call('DEL', P .. 'de:' .. key) end
end
