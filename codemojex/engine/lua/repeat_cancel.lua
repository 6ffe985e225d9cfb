--- repeat_cancel: forget a repeated job; what it has fired stays
--- Keys: P
--- Args: name
--- Returns: 1, or 0 when it was not registered
--- Refuses: nothing
local listed = redis.call('ZREM', KEYS[1] .. 'repeat', ARGV[1])
return math.max(listed, redis.call('DEL', KEYS[1] .. 'repeat:' .. ARGV[1]))
