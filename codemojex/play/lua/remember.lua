--- remember: write the fields of a room or player that differ, and keep it alive
--- Keys: the hash
--- Args: keep ms, then field and value pairs
--- Returns: the whole hash, as HGETALL gives it; its rev grows when something differed
--- Refuses: nothing
local changed = false
for i = 2, #ARGV, 2 do
  if redis.call('HGET', KEYS[1], ARGV[i]) ~= ARGV[i + 1] then
    redis.call('HSET', KEYS[1], ARGV[i], ARGV[i + 1])
    changed = true
  end
end
if changed then redis.call('HINCRBY', KEYS[1], 'rev', 1) end
redis.call('PEXPIRE', KEYS[1], ARGV[1])
return redis.call('HGETALL', KEYS[1])
