--- seats: how many jobs of a lane are in flight
--- Keys: P
--- Args: names: lanes, at most a few hundred; seats: lane -> how many
--- Returns: release(P, g) -> active, was_full; release_many(P, names, seats); take_seats(P, names, seats)
--- Refuses: nothing
--- Include: ring
-- Give one seat of a lane back.
local function release(P, g)
  local active = redis.call('HINCRBY', P .. 'gactive', g, -1)
  if active <= 0 then redis.call('HDEL', P .. 'gactive', g) end
  local limit = tonumber(redis.call('HGET', P .. 'glimit', g))
  return math.max(active, 0), limit ~= nil and active + 1 >= limit
end

-- Give back `seats[g]` seats of every lane g in `names`, at most a few hundred; nothing is put back.
local function release_many(P, names, seats)
  if #names == 0 then return end
  local before = redis.call('HMGET', P .. 'gactive', unpack(names))
  local limits = redis.call('EXISTS', P .. 'glimit') == 1 and redis.call('HMGET', P .. 'glimit', unpack(names))
  local keep, drop = {}, {}
  for i, g in ipairs(names) do
    local active = (tonumber(before[i]) or 0) - seats[g]
    if active > 0 then
      keep[#keep + 1] = g
      keep[#keep + 1] = active
    else
      drop[#drop + 1] = g
    end
  end
  if #keep > 0 then redis.call('HSET', P .. 'gactive', unpack(keep)) end
  if #drop > 0 then redis.call('HDEL', P .. 'gactive', unpack(drop)) end
  for i, g in ipairs(names) do
    local limit = limits and tonumber(limits[i])
    -- Without a ceiling a lane never left the ring for its seats, and has no default to forget.
    if limit then
      local active = tonumber(before[i]) or 0
      lane_freed(P, g, math.max(active - seats[g], 0), active >= limit)
    end
  end
end

-- Take `seats[g]` seats of every lane g in `names`.
local function take_seats(P, names, seats)
  if #names == 0 then return end
  local fields = {}
  for i, active in ipairs(redis.call('HMGET', P .. 'gactive', unpack(names))) do
    fields[2 * i - 1], fields[2 * i] = names[i], (tonumber(active) or 0) + seats[names[i]]
  end
  redis.call('HSET', P .. 'gactive', unpack(fields))
end
