--- score_guess: record one guess's score, once; close the game when it is decided
--- Keys: see game_keys
--- Args: guess id, party, player id, seq, total ('' when it cannot be scored), '1' for a perfect guess, and the JSON of
---   guess.scored, guess.refused and game.cracked
--- Returns: 'scored', 'void', 'again' (recorded before, nothing changed) or 'gone' (the game has expired)
--- Refuses: nothing
--- Include: closing
local g = redis.call('HMGET', GAME, 'state', 'cut', 'expires_ms', 'reason')
if not g[1] then return 'gone' end
if redis.call('ZREM', OUTSTANDING, ARGV[1]) == 0 then return 'again' end
local seq, cut = tonumber(ARGV[4]), tonumber(g[2])
local over = g[1] == 'closed' or g[1] == 'settled'
if over or ARGV[5] == '' or (cut and seq > cut) then
  -- the stream of a closed game is complete: the player hears of it through the feed alone
  emit(over and {FEED} or TOLD, 'guess.refused', ARGV[8])
  close_if_done()
  return 'void'
end
if redis.call('ZADD', BOARD, 'GT', string.format('%.0f', tonumber(ARGV[5]) * 1e9 - seq), ARGV[2]) == 1 then
  redis.call('PEXPIREAT', BOARD, g[3], 'NX')
end
emit(TOLD, 'guess.scored', ARGV[7])
local cracked = ARGV[6] == '1' -- the guess is up to the cut, so it is the earliest perfect one so far
if cracked then
  redis.call('HSET', GAME, 'state', 'closing', 'reason', 'cracked', 'cut', seq, 'winner', ARGV[3])
  redis.call('HINCRBY', GAME, 'rev', 1)
  emit(TOLD, 'game.cracked', ARGV[9])
end
if not close_if_done() and cracked then watch() end
return 'scored'
