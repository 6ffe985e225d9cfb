--- configure: change the queue's settings in one step
--- Keys: P
--- Args: pairs of meta field and value ('' removes the field)
--- Returns: 1
--- Refuses: nothing
--- Include: now, wake, limiter
local P, now = KEYS[1], now_ms()
local before = read_meta(P)
for i = 1, #ARGV, 2 do
  if ARGV[i + 1] == '' then
    redis.call('HDEL', P .. 'meta', ARGV[i])
  else
    redis.call('HSET', P .. 'meta', ARGV[i], ARGV[i + 1])
  end
end
-- A window's counter and a bucket's instant share one key; the same setting again keeps what is spent. Another rate of
-- a bucket keeps it too, as units: the wait for them is the new rate's.
local after = read_meta(P)
local spent = before.bucket and after.bucket and before.rate ~= after.rate and redis.call('GET', P .. 'limiter')
if before.limiter ~= after.limiter then
  redis.call('DEL', P .. 'limiter')
elseif spent and tonumber(spent) > now then
  gcra_save(P .. 'limiter', now, now + (tonumber(spent) - now) * before.rate / after.rate)
end
wake(P)
return 1
