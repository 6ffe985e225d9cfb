--- lane_set: pause, resume, limit, weight, pace or park one lane
--- Keys: P
--- Args: lane, what ('pause', 'resume', 'limit', 'weight', 'rate', 'park'), value ('' removes a limit, weight or rate;
---   for park the milliseconds to rest, 0 ends the rest)
--- Returns: 1
--- Refuses: nothing
--- Include: now, lane_visit, follow
local P, g, what, value = KEYS[1], ARGV[1], ARGV[2], ARGV[3]
local hash = ({ limit = 'glimit', weight = 'gweight', rate = 'grate' })[what]
if hash and value == '' then
  redis.call('HDEL', P .. hash, g)
elseif hash then
  redis.call('HSET', P .. hash, g, value)
elseif what == 'pause' then
  redis.call('SADD', P .. 'paused', g)
elseif what == 'resume' then
  redis.call('SREM', P .. 'paused', g)
elseif value == '0' then
  rest_end(P, g)
else
  rest_told(P, g, now_ms() + tonumber(value))
end
if what == 'limit' then redis.call('HDEL', P .. 'gdefault', g) end
if what == 'rate' then follow_pace(P, now_ms(), read_meta(P), g) end
lane_visit(P, g)
return 1
