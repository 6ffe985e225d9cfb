--- extend: renew the leases that are still held
--- Keys: P
--- Args: lease_ms, then id, token per lease
--- Returns: one of 'ok', 'stale', 'gone' per lease, in input order; only a job that is active under the token is
---   renewed
--- Refuses: nothing
--- Include: now
local P = KEYS[1]
local deadline = now_ms() + tonumber(ARGV[1])
local out = {}
for i = 2, #ARGV, 2 do
  local id, token = ARGV[i], ARGV[i + 1]
  local attempts = redis.call('HGET', P .. 'job:' .. id, 'attempts')
  local verdict = 'ok'
  if not attempts then
    verdict = 'gone'
  elseif attempts ~= token or not redis.call('ZSCORE', P .. 'active', id) then
    verdict = 'stale'
  else
    redis.call('ZADD', P .. 'active', 'XX', deadline, id)
  end
  out[#out + 1] = verdict
end
return out
