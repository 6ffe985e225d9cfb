--- dedup: the life of a producer's idempotency key after admission
--- Keys: P
--- Args: key, id, ms
--- Returns: dedup_keep(P, key, id, ms): it lives `ms` from now on; dedup_done(P, key, id, ms): so does the mark that the
---   job was completed here; dedup_free(P, key, id); all three only while the key points at id; dedup_holder(P, key) ->
---   the id that holds the key, or nil when it is free
--- Refuses: nothing
local function dedup_keep(P, key, id, ms)
  if redis.call('GET', P .. 'de:' .. key) == id then redis.call('PEXPIRE', P .. 'de:' .. key, ms) end
end

local function dedup_done(P, key, id, ms)
  if redis.call('GET', P .. 'de:' .. key) == id then redis.call('SET', P .. 'done:' .. key, id, 'PX', ms) end
end

local function dedup_free(P, key, id)
  if redis.call('GET', P .. 'de:' .. key) == id then redis.call('DEL', P .. 'de:' .. key) end
end

-- A peer frees no key. A holder whose row is gone holds nothing, unless we completed it: then the window outlives it. A job
-- that held its key only until its claim (it has no window) holds nothing once it was claimed.
local function dedup_holder(P, key)
  local holder = redis.call('GET', P .. 'de:' .. key)
  if not holder then return nil end
  local attempts, own, window = unpack(redis.call('HMGET', P .. 'job:' .. holder, 'attempts', 'dedup', 'dedup_ms'))
  if not attempts then return redis.call('GET', P .. 'done:' .. key) == holder and holder or nil end
  if own == key and not window and attempts ~= '0' then return nil end
  return holder
end
