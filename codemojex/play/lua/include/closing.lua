--- closing: the one way in which a game stops and ends
--- Keys: see game_keys
--- Args: none of its own
--- Returns: begin_closing(reason, cut): open → closing, true when it was open.
---   close_if_done(): closed, and its settlement ordered, when every guess up to the cut is scored; true when it
---   closed now. A race whose players are all out of tries closes only after its time for others to join.
---   watch(): order a later look at a game that could not close yet, see effect/close_game.lua.
--- Refuses: nothing
--- Include: emit, order, keep_finished, unlogged
local function begin_closing(reason, cut)
  if redis.call('HGET', GAME, 'state') ~= 'open' then return false end
  redis.call('HSET', GAME, 'state', 'closing', 'reason', reason, 'cut', cut)
  redis.call('HINCRBY', GAME, 'rev', 1)
  return true
end

local function order_later(field, delay_ms)
  local about = redis.call('HMGET', GAME, 'id', 'room', field)
  local payload = '{"kind":"deadline","v":1,"game":"' .. about[1] .. '","room":"' .. about[2] .. '"}'
  order(about[3], payload, about[2], delay_ms)
end

local function watch() order_later('watch_job', 30000) end

-- everybody who plays is out of tries: begin the time for others to join, or tell whether it still runs
local function others_may_join()
  local g = redis.call('HMGET', GAME, 'joining_ms', 'ends_ms', 'deadline_ms', 'seq')
  local joining, ends, now = tonumber(g[1]) or 0, tonumber(g[2]), now_ms()
  if joining == 0 then return false end
  if not ends then
    ends = math.max(now, math.min(now + joining, tonumber(g[3])))
    redis.call('HSET', GAME, 'ends_ms', string.format('%.0f', ends))
    emit(TOLD, 'game.exhausted', '{"v":1,"seq":' .. g[4] .. ',"until_ms":' .. string.format('%.0f', ends) .. '}')
    order_later('joining_job', ends - now)
    return true
  end
  return now < ends
end

local function close_if_done()
  local g = redis.call('HMGET', GAME, 'id', 'room', 'state', 'cut', 'reason', 'winner', 'seq', 'players', 'exhausted')
  local state, cut, reason = g[3], tonumber(g[4]), g[5]
  if state == 'open' then
    -- players counts who takes part (a team as one), exhausted those of them without a try
    if tonumber(g[8]) == 0 or tonumber(g[9]) < tonumber(g[8]) then return false end
    if redis.call('EXISTS', OUTSTANDING) == 1 or others_may_join() then return false end
    reason, cut = 'out_of_tries', tonumber(g[7])
  elseif state ~= 'closing' or redis.call('ZCOUNT', OUTSTANDING, '-inf', cut) > 0 then
    return false
  end
  local won = reason == 'cracked'
  local secret = redis.call('HMGET', SECRET, 'tokens', 'nonce')
  redis.call('HSET', GAME, 'state', 'closed', 'reason', reason, 'cut', cut,
    'closed_ms', string.format('%.0f', now_ms()))
  redis.call('HINCRBY', GAME, 'rev', 1)
  emit(TOLD, 'game.closed', '{"v":1,"reason":"' .. reason .. '","secret":' .. unlogged(secret[1] or '[]') .. ',"nonce":"' ..
    unlogged(secret[2] or '') .. '","cut":' .. (won and string.format('%d', cut) or 'null') .. ',"winner":' ..
    (won and '"' .. g[6] .. '"' or 'null') .. '}')
  if redis.call('HGET', ROOM, 'live') == g[1] then redis.call('HDEL', ROOM, 'live') end
  redis.call('HSET', ROOM, 'last', g[1])
  keep_finished(g[1])
  -- the settlement has the game's own number: it cannot be ordered twice
  order('JOB' .. string.sub(g[1], 4), '{"kind":"settle","v":1,"game":"' .. g[1] .. '","room":"' .. g[2] .. '"}', g[2])
  return true
end
