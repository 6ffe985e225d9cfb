--- node_lease: lease a free node number
--- Keys: the table of leases (hash: node -> '<lease end ms>:<token>'); its name with ':reserved' is the hash of numbers that
---   nobody leases
--- Args: token, lease_ms, rest_ms (how long a number rests after its lease), first number to try, how many numbers, the
---   lowest number (0 without it)
--- Returns: the number, or -1 when all are leased, at rest or reserved
--- Refuses: nothing
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local leases, flat = {}, redis.call('HGETALL', KEYS[1])
for i = 1, #flat, 2 do leases[flat[i]] = flat[i + 1] end
local count, low = tonumber(ARGV[5]), tonumber(ARGV[6] or 0)
for offset = 0, count - 1 do
  local node = string.format('%d', low + (tonumber(ARGV[4]) - low + offset) % count)
  local lease_end = leases[node] and tonumber(string.match(leases[node], '^(%d+):'))
  local free = not lease_end or lease_end + tonumber(ARGV[3]) <= now
  if free and redis.call('HEXISTS', KEYS[1] .. ':reserved', node) == 0 then
    redis.call('HSET', KEYS[1], node, string.format('%.0f:%s', now + tonumber(ARGV[2]), ARGV[1]))
    redis.call('PEXPIRE', KEYS[1], 2 * (tonumber(ARGV[2]) + tonumber(ARGV[3])))
    return tonumber(node)
  end
end
return -1
