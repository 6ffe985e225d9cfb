--- repeat_due: the repeated jobs whose slot has come
--- Keys: P
--- Args: limit
--- Returns: now, ms until the next slot of another one (-1: none), then per repeat: name, slot, every_ms, cron, zone,
---   catch_up, until ('' for what is not set)
--- Refuses: nothing
--- Include: now
local P, now = KEYS[1], now_ms()
local key = P .. 'repeat'
if redis.call('EXISTS', key) == 0 then return { now, -1 } end
local due = redis.call('ZRANGEBYSCORE', key, '-inf', now, 'WITHSCORES', 'LIMIT', 0, ARGV[1])
local later = redis.call('ZRANGEBYSCORE', key, '(' .. now, '+inf', 'WITHSCORES', 'LIMIT', 0, 1)[2]
local out = { now, later and math.ceil(later - now) or -1 }
for i = 1, #due, 2 do
  out[#out + 1], out[#out + 2] = due[i], due[i + 1]
  local record = redis.call('HMGET', P .. 'repeat:' .. due[i], 'every_ms', 'cron', 'zone', 'catch_up', 'until')
  for j = 1, 5 do out[#out + 1] = record[j] or '' end
end
return out
