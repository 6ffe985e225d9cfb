--- poller_release: give back the lease of a bot's poller
--- Keys: poller
--- Args: token of the holder
--- Returns: 1 when it was given back, 0 when it was not this holder's
--- Refuses: nothing
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('DEL', KEYS[1])
