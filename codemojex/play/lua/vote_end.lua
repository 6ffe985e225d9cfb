--- vote_end: vote for the end of a game; enough votes within the window stop it
--- Keys: see game_keys
--- Args: player id, votes needed, window ms
--- Returns: {'vote', count, '1' when the game is stopped, '1' when the player's vote counted before} or
---   {'closed' | 'gone', 0, '0', '0'}
--- Refuses: nothing
--- Include: closing
local g = redis.call('HMGET', GAME, 'state', 'reason', 'seq', 'expires_ms')
if not g[1] then return {'gone', 0, '0', '0'} end
local needed = tonumber(ARGV[2])
if g[1] ~= 'open' then
  if g[2] == 'voted' then return {'vote', needed, '1', '0'} end
  return {'closed', 0, '0', '0'}
end
local now = now_ms()
redis.call('ZREMRANGEBYSCORE', VOTES, '-inf', string.format('(%.0f', now - tonumber(ARGV[3])))
local new = redis.call('ZADD', VOTES, string.format('%.0f', now), ARGV[1])
redis.call('PEXPIREAT', VOTES, g[4], 'NX')
local count = redis.call('ZCARD', VOTES)
if count < needed then return {'vote', count, '0', new == 0 and '1' or '0'} end
begin_closing('voted', g[3])
if not close_if_done() then watch() end
return {'vote', count, '1', '0'}
