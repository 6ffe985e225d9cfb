--- close_game: stop a game at its deadline; close one that nobody has joined any more; look again at a stopped one until
---   it is closed
--- Keys: see game_keys
--- Args: the id of the job that carries this effect
--- Returns: 'closed', 'waiting' (guesses are still to be scored; it ordered another look), 'early' or 'gone'
--- Refuses: nothing
--- Include: closing
local g = redis.call('HMGET', GAME, 'state', 'deadline_ms', 'seq', 'watch_job', 'ends_ms')
if not g[1] then return 'gone' end
-- this job's row is still there, so the other of these two ids carries the next look
local other = ARGV[1] == g[4] and 'joining_job' or 'watch_job'
if g[1] == 'open' then
  local now, ends = now_ms(), tonumber(g[5])
  if now < tonumber(g[2]) then
    if not ends then return 'early' end
    if close_if_done() then return 'closed' end
    if now < ends then order_later(other, ends - now) end
    return 'early'
  end
  begin_closing('deadline', g[3])
elseif g[1] ~= 'closing' then
  return 'closed'
end
-- a guess whose job is dead or gone will never be scored, and must not keep the game open
local waiting = redis.call('ZRANGE', OUTSTANDING, 0, 199, 'WITHSCORES')
for i = 1, #waiting, 2 do
  local state = redis.call('HGET', P .. 'job:JOB' .. string.sub(waiting[i], 4), 'state')
  if not state or state == 'dead' then
    redis.call('ZREM', OUTSTANDING, waiting[i])
    emit(TOLD, 'guess.refused', '{"v":1,"guess":"' .. waiting[i] .. '","player":"","name":"","seq":' .. waiting[i + 1] ..
      ',"reason":"unscored"}')
  end
end
if close_if_done() then return 'closed' end
order_later(other, 30000)
return 'waiting'
