--- repeat_cancel: forget a repeated job; what it has fired stays
--- Keys: P
--- Args: name
--- Returns: 1, or 0 when it was not registered
--- Refuses: nothing
--- Include: repeat_home
local listed = repeat_drop(KEYS[1], ARGV[1])
return math.min(1, listed + redis.call('DEL', KEYS[1] .. 'repeat:' .. ARGV[1]))
