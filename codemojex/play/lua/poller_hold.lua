--- poller_hold: take the lease of a bot's poller, or renew it
--- Keys: poller
--- Args: token of the holder, lease_ms
--- Returns: 1 when this holder has the lease, 0 while another one has it
--- Refuses: nothing
local holder = redis.call('GET', KEYS[1])
if holder and holder ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1
