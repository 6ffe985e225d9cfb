--- flow_missing: whether a parent still waits for a child that it has heard nothing of
--- Keys: P
--- Args: parent, child
--- Returns: '' when it does not, else this life of the parent ('0' when its row does not say)
--- Refuses: nothing
local row, child = KEYS[1] .. 'job:' .. ARGV[1], ARGV[2]
local state, life = unpack(redis.call('HMGET', row, 'state', 'flow'))
if state ~= 'awaiting_children' then return '' end
for _, record in ipairs({ ':processed', ':failed', ':unsuccessful' }) do
  if redis.call('HEXISTS', row .. record, child) == 1 then return '' end
end
return life or '0'
