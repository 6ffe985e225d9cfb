--- configure: change the queue's settings in one step
--- Keys: P
--- Args: pairs of meta field and value ('' removes the field)
--- Returns: 1
--- Refuses: nothing
--- Include: wake
local P = KEYS[1]
local kind = redis.call('HGET', P .. 'meta', 'limiter')
for i = 1, #ARGV, 2 do
  if ARGV[i + 1] == '' then
    redis.call('HDEL', P .. 'meta', ARGV[i])
  else
    redis.call('HSET', P .. 'meta', ARGV[i], ARGV[i + 1])
  end
end
-- A window's counter and a bucket's instant share one key; the same setting again keeps what is spent.
if redis.call('HGET', P .. 'meta', 'limiter') ~= kind then redis.call('DEL', P .. 'limiter') end
wake(P)
return 1
