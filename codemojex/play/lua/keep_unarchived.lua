--- keep_unarchived: count and keep finished games that an older release left with a life time; forget those that are gone
--- Keys: P (the queue's prefix), prefix of the game's own keys, complete, refused, unarchived
--- Args: first place, how many of each set to look at
--- Returns: {how many of the largest set there were, games kept anew, games that are gone}
--- Refuses: nothing
local first, last = tonumber(ARGV[1]), tonumber(ARGV[1]) + tonumber(ARGV[2]) - 1
local seen, kept, gone = 0, 0, 0
for place = 3, 4 do
  local games = redis.call('ZRANGE', KEYS[place], first, last, 'WITHSCORES')
  seen = math.max(seen, #games / 2)
  for i = 1, #games, 2 do
    local stream = KEYS[1] .. 'stream:' .. games[i]
    if redis.call('EXISTS', stream) == 1 then
      kept = kept + redis.call('ZADD', KEYS[5], 'NX', games[i + 1], games[i])
      redis.call('PERSIST', stream)
      for _, family in ipairs({'game', 'secret', 'tries', 'requests', 'outstanding', 'votes', 'board', 'codes'}) do
        redis.call('PERSIST', KEYS[2] .. family .. ':' .. games[i])
      end
    end
  end
  redis.call('PERSIST', KEYS[place])
end
local counted = redis.call('ZRANGE', KEYS[5], first, last)
for _, id in ipairs(counted) do
  -- what is on the archiver's list is the archiver's to forget
  if redis.call('EXISTS', KEYS[1] .. 'stream:' .. id) == 0 and not redis.call('ZSCORE', KEYS[3], id) then
    gone = gone + redis.call('ZREM', KEYS[5], id)
  end
end
return {math.max(seen, #counted), kept, gone}
