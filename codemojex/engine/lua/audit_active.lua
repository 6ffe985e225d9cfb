--- audit_active: compare the lanes' seats with the jobs in flight, and set them right if asked
--- Keys: P
--- Args: repair (1 or 0)
--- Returns: flat list of lane, what is wrong
--- Refuses: EMQSTATE more than 20000 jobs in flight
--- Include: lane_visit
local P, repair = KEYS[1], ARGV[1] == '1'
if redis.call('ZCARD', P .. 'active') > 20000 then
  return redis.error_reply('EMQSTATE more than 20000 jobs in flight: too many for one look')
end
local seats, found = {}, {}
for _, id in ipairs(redis.call('ZRANGE', P .. 'active', 0, -1)) do
  local g = redis.call('HGET', P .. 'job:' .. id, 'group')
  if g then seats[g] = (seats[g] or 0) + 1 end
end
local counted = redis.call('HGETALL', P .. 'gactive')
for i = 1, #counted, 2 do seats[counted[i]] = seats[counted[i]] or 0 end
for g, n in pairs(seats) do
  local field = redis.call('HGET', P .. 'gactive', g)
  if (tonumber(field) or 0) ~= n or field == '0' then
    found[#found + 1] = g
    found[#found + 1] = 'gactive: counts ' .. (field or 'nothing') .. ' in flight, there are ' .. n
    if repair then
      if n == 0 then redis.call('HDEL', P .. 'gactive', g) else redis.call('HSET', P .. 'gactive', g, n) end
      lane_visit(P, g)
    end
  end
end
return found
