--- settle_game: write a closed game's final table and hand it to the archiver
--- Keys: see game_keys
--- Args: JSON of game.settled, then score and party of every line of the final board
--- Returns: 'settled', 'again' or 'gone'
--- Refuses: nothing
--- Include: emit, now, keep_finished
local g = redis.call('HMGET', GAME, 'id', 'state')
if not g[1] then return 'gone' end
if g[2] ~= 'closed' then return 'again' end
redis.call('DEL', BOARD)
for first = 2, #ARGV, 500 do
  redis.call('ZADD', BOARD, unpack(ARGV, first, math.min(first + 499, #ARGV)))
end
redis.call('HSET', GAME, 'state', 'settled')
redis.call('HINCRBY', GAME, 'rev', 1)
emit(TOLD, 'game.settled', ARGV[1])
keep_finished(g[1]) -- one that an older release closed has a life time yet
redis.call('ZADD', COMPLETE, string.format('%.0f', now_ms()), g[1])
return 'settled'
