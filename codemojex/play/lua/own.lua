--- own: write whose the games of this server are, once; a bot that was not known is added
--- Keys: owner
--- Args: bot ('' when it is not known), store, bus
--- Returns: bot, store and bus as they stand now, and 1 when this call wrote them all, else 0
--- Refuses: nothing
local held = redis.call('HMGET', KEYS[1], 'bot', 'store', 'bus')
if not held[2] or not held[3] then
  redis.call('HSET', KEYS[1], 'bot', ARGV[1], 'store', ARGV[2], 'bus', ARGV[3])
  return {ARGV[1], ARGV[2], ARGV[3], 1}
end
local bot = held[1] or ''
if bot == '' and ARGV[1] ~= '' and held[2] == ARGV[2] and held[3] == ARGV[3] then
  redis.call('HSET', KEYS[1], 'bot', ARGV[1])
  bot = ARGV[1]
end
return {bot, held[2], held[3], 0}
