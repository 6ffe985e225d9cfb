--- lock_set: mark jobs as held, so that nobody removes them
--- Keys: P
--- Args: ttl (ms), then id, token per job
--- Returns: 1 per job, 0 for a job that is not in flight
--- Refuses: nothing
--- Include: mark_lock
local P, out = KEYS[1], {}
for i = 2, #ARGV, 2 do
  local held = redis.call('EXISTS', P .. 'job:' .. ARGV[i]) == 1 and redis.call('ZSCORE', P .. 'active', ARGV[i])
  if held then mark_lock(P, ARGV[i], ARGV[i + 1], ARGV[1]) end
  out[#out + 1] = held and 1 or 0
end
return out
