--- gcra_probe: what a token bucket says
--- Keys: none
--- Args: tat ('' for none), now, rate, burst
--- Returns: units, start, wait as text
--- Refuses: nothing
--- Include: limiter
local now, rate, burst = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local units, start = gcra(ARGV[1], now, rate, burst)
return { string.format('%.3f', units), string.format('%.3f', start), string.format('%.3f', gcra_wait(start, now, rate, burst)) }
