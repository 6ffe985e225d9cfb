--- rate_ttl: how long the queue's budget is spent, without spending
--- Keys: P
--- Args: max_jobs (0: the queue's own)
--- Returns: ms until there is a unit, 0 when there is one
--- Refuses: nothing
--- Include: now, limiter
local P, m = KEYS[1], read_meta(KEYS[1])
if ARGV[1] ~= '0' then m.bucket, m.max = nil, tonumber(ARGV[1]) end
return limited_for(P, now_ms(), m)
