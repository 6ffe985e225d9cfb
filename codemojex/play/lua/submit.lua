--- submit: take a try, number the guess and order its score, all or nothing
--- Keys: see game_keys
--- Args: player id, party (the player, or team), request, guess id, job id, lane, event JSON and payload JSON both
---   without their last fields and brace, cool-down ms, most guesses that may wait, the code as one text, hidden by `unlogged.hide`
--- Returns: {'accepted' | 'again', guess id, seq, try, tries left} or {reason, wait ms}
--- Refuses: nothing; gone, closed, late, no_tries, tried, tried_waiting, team_tried, team_tried_waiting, cooldown and
---   busy are answers
--- Include: emit, order
local before = redis.call('HGET', REQUESTS, ARGV[3])
if before then
  local guess, seq, try, left = string.match(before, '^(%w+) (%d+) (%d+) (%d+)$')
  return {'again', guess, seq, try, left}
end
local g = redis.call('HMGET', GAME, 'state', 'deadline_ms', 'tries', 'expires_ms')
if not g[1] then return {'gone', 0} end
if g[1] ~= 'open' then return {'closed', 0} end
local now = now_ms()
if now >= tonumber(g[2]) then return {'late', 0} end
local limit, used = tonumber(g[3]), tonumber(redis.call('HGET', TRIES, ARGV[2]) or 0)
if used >= limit then return {'no_tries', 0} end
-- whose tries they are, their codes: a race forgives a player's own repeat, a team forgives the team's
local code = redis.sha1hex((redis.call('HGET', SECRET, 'nonce') or '') .. ARGV[2] .. ARGV[11])
local tried = redis.call('HGET', CODES, code)
if tried then
  local by, guess = string.match(tried, '^(%w+) (%w+)$')
  local waits = redis.call('ZSCORE', OUTSTANDING, guess)
  return {(by == ARGV[1] and 'tried' or 'team_tried') .. (waits and '_waiting' or ''), 0}
end
local cooldown = tonumber(ARGV[9])
local last = cooldown > 0 and redis.call('HGET', TRIES, 'at:' .. ARGV[1])
if last and tonumber(last) + cooldown > now then return {'cooldown', tonumber(last) + cooldown - now} end
if redis.call('ZCARD', OUTSTANDING) >= tonumber(ARGV[10]) then return {'busy', 0} end

local try, seq = used + 1, redis.call('HINCRBY', GAME, 'seq', 1)
local numbers = ',"seq":' .. seq .. ',"try":' .. try .. '}'
if used == 0 then
  redis.call('HINCRBY', GAME, 'players', 1)
  redis.call('HDEL', GAME, 'ends_ms') -- somebody has joined
end
if try == limit then redis.call('HINCRBY', GAME, 'exhausted', 1) end
redis.call('HSET', TRIES, ARGV[2], try)
if cooldown > 0 then redis.call('HSET', TRIES, 'at:' .. ARGV[1], string.format('%.0f', now)) end
redis.call('HSET', REQUESTS, ARGV[3], table.concat({ARGV[4], seq, try, limit - try}, ' '))
redis.call('HSET', CODES, code, ARGV[1] .. ' ' .. ARGV[4])
redis.call('ZADD', OUTSTANDING, seq, ARGV[4])
for _, key in ipairs({TRIES, REQUESTS, CODES, OUTSTANDING}) do redis.call('PEXPIREAT', key, g[4], 'NX') end
emit(TOLD, 'guess.accepted', ARGV[7] .. numbers)
order(ARGV[5], ARGV[8] .. numbers, ARGV[6])
return {'accepted', ARGV[4], seq, try, limit - try}
