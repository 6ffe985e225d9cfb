--- wake: let one parked worker look at the queue
--- Keys: P
--- Args: none
--- Returns: wake(P) pushes one token; never more than 64 wait
--- Refuses: nothing
local function wake(P)
  if redis.call('LPUSH', P .. 'wake', '1') > 64 then
    redis.call('LTRIM', P .. 'wake', 0, 63)
  end
end
