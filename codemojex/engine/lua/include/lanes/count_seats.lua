--- count_seats: the seats that lanes must have, counted from the jobs in flight
--- Keys: P
--- Args: jobs, lanes: how many jobs in flight and lanes with seats at most
--- Returns: count_seats(P, jobs, lanes) -> list of {lane, what `gactive` says or false, how many there are} where the two differ;
---   nil when there are more; whether every job in flight has a row; correct_seats(P, g, n)
--- Refuses: nothing
local function count_seats(P, jobs, lanes)
  if redis.call('ZCARD', P .. 'active') > jobs or redis.call('HLEN', P .. 'gactive') > lanes then return nil end
  local seats, wrong, known = {}, {}, true
  for _, id in ipairs(redis.call('ZRANGE', P .. 'active', 0, -1)) do
    local state, g = unpack(redis.call('HMGET', P .. 'job:' .. id, 'state', 'group'))
    known = known and state ~= false
    if g then seats[g] = (seats[g] or 0) + 1 end
  end
  local counted = redis.call('HGETALL', P .. 'gactive')
  for i = 1, #counted, 2 do seats[counted[i]] = seats[counted[i]] or 0 end
  for g, n in pairs(seats) do
    local field = redis.call('HGET', P .. 'gactive', g)
    if (tonumber(field) or 0) ~= n or field == '0' then wrong[#wrong + 1] = { g, field, n } end
  end
  return wrong, known
end

local function correct_seats(P, g, n)
  if n == 0 then redis.call('HDEL', P .. 'gactive', g) else redis.call('HSET', P .. 'gactive', g, n) end
end
