--- remember: write the fields of a room or player that differ, and keep it alive
--- Keys: the hash
--- Args: keep ms, then field and value pairs
--- Returns: the whole hash, as HGETALL gives it. When something differed, its rev is the server's time in ms, or more:
---   a version that also orders different rooms that were the same chat one after the other
--- Refuses: nothing
--- Include: now
local changed = false
for i = 2, #ARGV, 2 do
  if redis.call('HGET', KEYS[1], ARGV[i]) ~= ARGV[i + 1] then
    redis.call('HSET', KEYS[1], ARGV[i], ARGV[i + 1])
    changed = true
  end
end
if changed then
  local rev = tonumber(redis.call('HGET', KEYS[1], 'rev') or 0)
  redis.call('HSET', KEYS[1], 'rev', string.format('%.0f', math.max(rev + 1, now_ms())))
end
redis.call('PEXPIRE', KEYS[1], ARGV[1])
return redis.call('HGETALL', KEYS[1])
