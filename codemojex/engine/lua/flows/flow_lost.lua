--- flow_lost: make a dead letter of a parent whose children ended without a trace
--- Keys: P
--- Args: parent, how many children it waits for, of how many it has heard, error
--- Returns: 1, or 0 when it has heard of a child meanwhile, or waits no more
--- Refuses: nothing
--- Include: bury
local P, id = KEYS[1], ARGV[1]
local row = P .. 'job:' .. id
local state, parent = unpack(redis.call('HMGET', row, 'state', 'parent'))
if state ~= 'awaiting_children' or redis.call('GET', row .. ':dependencies') ~= ARGV[2] then return 0 end
local heard = 0
for _, record in ipairs({ ':processed', ':failed', ':unsuccessful' }) do
  heard = heard + redis.call('HLEN', row .. record)
end
if heard ~= tonumber(ARGV[3]) then return 0 end
redis.call('ZREM', P .. 'parents', id)
bury(P, id, ARGV[4], parent)
return 1
