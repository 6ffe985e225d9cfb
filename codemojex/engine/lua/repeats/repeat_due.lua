--- repeat_due: the repeated jobs whose slot has come
--- Keys: P
--- Args: limit
--- Returns: now, ms until the next slot of another one (-1: none), then per repeat: name, slot, every_ms, cron, zone,
---   catch_up, until ('' for what is not set)
--- Refuses: nothing
--- Include: now
local P, now, limit = KEYS[1], now_ms(), tonumber(ARGV[1])
local due, later = {}, nil
for _, set in ipairs({ 'repeat', 'repeat_ours' }) do
  local key = P .. set
  local some = redis.call('ZRANGEBYSCORE', key, '-inf', now, 'WITHSCORES', 'LIMIT', 0, limit)
  for i = 1, #some, 2 do due[#due + 1] = { some[i], some[i + 1] } end
  local after = tonumber(redis.call('ZRANGEBYSCORE', key, '(' .. now, '+inf', 'WITHSCORES', 'LIMIT', 0, 1)[2])
  if after then later = math.min(later or after, after) end
end
table.sort(due, function(a, b)
  local one, other = tonumber(a[2]), tonumber(b[2])
  return one < other or (one == other and a[1] < b[1])
end)
local out = { now, later and math.ceil(later - now) or -1 }
for k = 1, math.min(limit, #due) do
  out[#out + 1], out[#out + 2] = due[k][1], due[k][2]
  local record = redis.call('HMGET', P .. 'repeat:' .. due[k][1], 'every_ms', 'cron', 'zone', 'catch_up', 'until')
  for j = 1, 5 do out[#out + 1] = record[j] or '' end
end
return out
