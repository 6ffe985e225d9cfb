--- node_renew: prolong a node lease, or end it
--- Keys: the table of leases, see node_lease
--- Args: node, token, lease_ms (0 ends the lease; the number then rests), rest_ms
--- Returns: 1, or 0 when the number belongs to somebody else or to nobody, or is reserved meanwhile
--- Refuses: nothing
local held = redis.call('HGET', KEYS[1], ARGV[1])
if not held or string.match(held, ':(.*)$') ~= ARGV[2] then return 0 end
if ARGV[3] ~= '0' and redis.call('HEXISTS', KEYS[1] .. ':reserved', ARGV[1]) == 1 then return 0 end
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local token = ARGV[3] == '0' and '' or ARGV[2]
redis.call('HSET', KEYS[1], ARGV[1], string.format('%.0f:%s', now + tonumber(ARGV[3]), token))
if redis.call('PTTL', KEYS[1]) < 2 * (tonumber(ARGV[3]) + tonumber(ARGV[4])) then
  redis.call('PEXPIRE', KEYS[1], 2 * (tonumber(ARGV[3]) + tonumber(ARGV[4])))
end
return 1
