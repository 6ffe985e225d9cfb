--- composer_sent: note where a player's composer of a game stands, if the game has not too many
--- Keys: composers
--- Args: player id, note as JSON, most players, keep ms
--- Returns: 1, or 0 when there are too many
--- Refuses: nothing
local known = redis.call('HEXISTS', KEYS[1], ARGV[1]) == 1
if not known and redis.call('HLEN', KEYS[1]) >= tonumber(ARGV[3]) then return 0 end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
redis.call('PEXPIRE', KEYS[1], ARGV[4])
return 1
