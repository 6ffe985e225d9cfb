--- lock_set: mark jobs as held, so that nobody removes them
--- Keys: P
--- Args: ttl (ms), then id, token per job
--- Returns: 1 per job, 0 for a job that is not there
--- Refuses: nothing
--- Include: mark_lock
local P, out = KEYS[1], {}
for i = 2, #ARGV, 2 do
  out[#out + 1] = redis.call('EXISTS', P .. 'job:' .. ARGV[i])
  if out[#out] == 1 then mark_lock(P, ARGV[i], ARGV[i + 1], ARGV[1]) end
end
return out
