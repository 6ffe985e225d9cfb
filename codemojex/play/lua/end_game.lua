--- end_game: stop a game at once, by its starter or an administrator
--- Keys: see game_keys
--- Args: player id, '1' for an administrator, request
--- Returns: 'ended', 'again', 'rights', 'closed' or 'gone'
--- Refuses: nothing
--- Include: closing
local request = 'end:' .. ARGV[3]
local g = redis.call('HMGET', GAME, 'state', 'starter', 'seq', 'expires_ms')
if not g[1] then return 'gone' end
if redis.call('HEXISTS', REQUESTS, request) == 1 then return 'again' end
if g[2] ~= ARGV[1] and ARGV[2] ~= '1' then return 'rights' end
if not begin_closing('ended', g[3]) then return 'closed' end
redis.call('HSET', REQUESTS, request, 'ended')
redis.call('PEXPIREAT', REQUESTS, g[4], 'NX')
if not close_if_done() then watch() end
return 'ended'
