--- flow_missing: whether a parent still waits for a child that it has heard nothing of
--- Keys: P
--- Args: parent, child
--- Returns: 1 or 0
--- Refuses: nothing
local row, child = KEYS[1] .. 'job:' .. ARGV[1], ARGV[2]
if redis.call('HGET', row, 'state') ~= 'awaiting_children' then return 0 end
for _, record in ipairs({ ':processed', ':failed', ':unsuccessful' }) do
  if redis.call('HEXISTS', row .. record, child) == 1 then return 0 end
end
return 1
