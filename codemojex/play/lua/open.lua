--- open: give a room its one live game, with its secret, first event and deadline
--- Keys: see game_keys; then opened (what this request opened before)
--- Args: game id, room id, starter id, settings JSON, tries, duration ms, commitment, event JSON without its last field
---   and brace, node, ids of the deadline job, the watch job and the joining job, joining ms, live keep ms, request
---   keep ms, mapping keep ms, most finished games that may wait for the archive, nonce hex and secret JSON,
---   both hidden by `unlogged.hide` and stored so
--- Returns: {'opened' | 'again' | 'live', game id}, or {'full', finished games that wait}
--- Refuses: nothing
--- Include: closing
local before = redis.call('GET', KEYS[15])
if before then return {'again', before} end
local live = redis.call('HGET', ROOM, 'live')
if live and redis.call('EXISTS', string.sub(GAME, 1, -15) .. live) == 1 then return {'live', live} end
local waiting = redis.call('ZCARD', UNARCHIVED)
if waiting >= tonumber(ARGV[17]) then return {'full', tostring(waiting)} end

local now = now_ms()
local deadline = string.format('%.0f', now + tonumber(ARGV[6]))
local expires = string.format('%.0f', now + tonumber(ARGV[6]) + tonumber(ARGV[14]))
redis.call('HSET', GAME, 'id', ARGV[1], 'room', ARGV[2], 'starter', ARGV[3], 'settings', ARGV[4], 'tries', ARGV[5],
  'commitment', ARGV[7], 'node', ARGV[9], 'deadline_job', ARGV[10], 'watch_job', ARGV[11],
  'joining_job', ARGV[12], 'joining_ms', ARGV[13],
  'opened_ms', string.format('%.0f', now), 'deadline_ms', deadline, 'expires_ms', expires,
  'state', 'open', 'seq', 0, 'players', 0, 'exhausted', 0, 'rev', 1)
redis.call('HSET', SECRET, 'tokens', ARGV[19], 'nonce', ARGV[18])
emit(TOLD, 'game.opened', ARGV[8] .. ',"deadline_ms":' .. deadline .. '}')
for _, key in ipairs({GAME, SECRET, STREAM}) do redis.call('PEXPIREAT', key, expires) end
redis.call('HSET', ROOM, 'live', ARGV[1], 'last', ARGV[1])
redis.call('PEXPIRE', ROOM, ARGV[16])
redis.call('SET', KEYS[15], ARGV[1], 'PX', ARGV[15])
order_later('deadline_job', tonumber(ARGV[6]))
return {'opened', ARGV[1]}
