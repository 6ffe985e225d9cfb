--- flow_ack: take delivered entries off the outbox, and none that another pump has not delivered
--- Keys: P
--- Args: where the first entry stands (see flow_outbox), how many of them to keep as unreadable, these, then the
---   delivered entries in their order
--- Returns: how many entries were taken off by this call
--- Refuses: nothing
-- Two pumps read the same entries. The position says which of them are gone already; the text protects against a
-- pump of another engine that takes entries off without counting them.
local P = KEYS[1]
local outbox, first, bad = P .. 'flow:outbox', tonumber(ARGV[1]), tonumber(ARGV[2])
local sent = tonumber(redis.call('GET', P .. 'flow:sent') or '0')
if sent < first then return 0 end -- the queue was obliterated meanwhile
local taken = 0
for i = bad + 3 + sent - first, #ARGV do
  if redis.call('LINDEX', outbox, 0) ~= ARGV[i] then break end
  redis.call('LPOP', outbox)
  taken = taken + 1
end
if taken > 0 then
  redis.call('INCRBY', P .. 'flow:sent', taken)
  for i = 3, bad + 2 do redis.call('RPUSH', P .. 'flow:rejected', ARGV[i]) end
  if bad > 0 then
    redis.call('LTRIM', P .. 'flow:rejected', -100, -1)
    redis.call('PEXPIRE', P .. 'flow:rejected', 604800000)
  end
end
return taken
