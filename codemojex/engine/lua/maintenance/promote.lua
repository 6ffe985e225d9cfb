--- promote: bring back the scheduled jobs and resting lanes whose time has come
--- Keys: P
--- Args: limit
--- Returns: how many jobs became pending, ms until the next one is due (-1: nothing waits)
--- Refuses: nothing
--- Include: now, due
local P = KEYS[1]
local now = now_ms()
wake_rested(P, now, tonumber(ARGV[1]))
return { promote_due(P, now, tonumber(ARGV[1])), next_due(P, now) }
