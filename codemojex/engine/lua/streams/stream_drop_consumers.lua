--- stream_drop_consumers: delete consumers of a group that hold nothing and have been silent for long
--- Keys: the stream
--- Args: group, the caller's own consumer, idle_ms
--- Returns: the names of those deleted
--- Refuses: nothing
local dropped = {}
-- The stream or the group may be gone, and its consumers with it: the error has no items.
local consumers = redis.pcall('XINFO', 'CONSUMERS', KEYS[1], ARGV[1])
for _, flat in ipairs(consumers) do
  local consumer = {}
  for i = 1, #flat, 2 do consumer[flat[i]] = flat[i + 1] end
  if consumer['name'] ~= ARGV[2] and consumer['pending'] == 0 and consumer['idle'] >= tonumber(ARGV[3]) then
    redis.call('XGROUP', 'DELCONSUMER', KEYS[1], ARGV[1], consumer['name'])
    dropped[#dropped + 1] = consumer['name']
  end
end
return dropped
