--- cache_drop: remove an entry whose payload nobody can read
--- Keys: the entry
--- Args: the frame as it was read
--- Returns: 1 when it was removed, 0 when something else is there by now
--- Refuses: nothing
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('UNLINK', KEYS[1])
