--- claim_many: hand out up to n jobs, one step of the rota per job
--- Keys: P
--- Args: n, lease_ms, max_bytes, mode, lane_limit (see claim; optional)
--- Returns: see claim, behind now
--- Refuses: nothing
--- Include: now, claim
local now = now_ms()
return { now, claim(KEYS[1], now, tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[4], tonumber(ARGV[5])) }
