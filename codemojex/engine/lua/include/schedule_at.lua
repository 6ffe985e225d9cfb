--- schedule_at: put a job into the schedule and wake a worker when it is the next one due
--- Keys: P
--- Args: id, due (ms)
--- Returns: schedule_at(P, id, due)
--- Refuses: nothing
--- Include: wake
local function schedule_at(P, id, due)
  redis.call('ZADD', P .. 'schedule', string.format('%.0f', due), id)
  if redis.call('ZRANK', P .. 'schedule', id) == 0 then wake(P) end
end
