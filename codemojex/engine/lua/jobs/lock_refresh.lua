--- lock_refresh: renew leases and, where that went well, the marks of their holders
--- Keys: P
--- Args: lease_ms, ttl (ms), then id, token per job
--- Returns: one of 'ok', 'stale', 'gone', 'cancel:<reason>' per job (see extend_one)
--- Refuses: nothing
--- Include: now, extend_one, mark_lock
local P, out = KEYS[1], {}
local now, lease_ms = now_ms(), tonumber(ARGV[1])
for i = 3, #ARGV, 2 do
  local id, token = ARGV[i], ARGV[i + 1]
  local verdict = extend_one(P, id, token, now, lease_ms)
  if verdict ~= 'stale' and verdict ~= 'gone' then mark_lock(P, id, token, ARGV[2]) end
  out[#out + 1] = verdict
end
return out
