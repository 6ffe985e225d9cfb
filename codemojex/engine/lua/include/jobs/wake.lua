--- wake: let one parked worker look at the queue
--- Keys: P
--- Args: none
--- Returns: wake(P) pushes one token; never more than 64 wait
--- Refuses: nothing
local function wake(P)
  if redis.call('LLEN', P .. 'wake') < 64 then redis.call('LPUSH', P .. 'wake', '1') end
end
