--- extend: renew the leases that are still held
--- Keys: P
--- Args: lease_ms, then id, token per lease
--- Returns: one of 'ok', 'stale', 'gone', 'cancel:<reason>' per lease, in input order (see extend_one)
--- Refuses: nothing
--- Include: now, extend_one
local P = KEYS[1]
local now, lease_ms = now_ms(), tonumber(ARGV[1])
local out = {}
for i = 2, #ARGV, 2 do
  out[#out + 1] = extend_one(P, ARGV[i], ARGV[i + 1], now, lease_ms)
end
return out
