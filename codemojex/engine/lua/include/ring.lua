--- ring: who stands in the rota of serviceable lanes, decided without scanning it
--- Keys: P
--- Args: none
--- Returns: lane_active(P, g), ring_enter(P, g, active), ring_exit(P, g), lane_put(P, g, id, active, was_full),
---   lane_freed(P, g, active, was_full), release(P, g) -> active, was_full, release_many(P, names, seats),
---   take_seats(P, names, seats)
--- Refuses: nothing
--- Include: wake
-- A lane stands in the ring exactly when it has work, is not paused, is not resting and is below its ceiling.

local function lane_active(P, g)
  return tonumber(redis.call('HGET', P .. 'gactive', g)) or 0
end

-- Enter a lane that has work and is known to be outside the ring; it stays outside when it may not be served.
local function ring_enter(P, g, active)
  local limit = tonumber(redis.call('HGET', P .. 'glimit', g))
  if limit and active >= limit then return end
  if redis.call('SISMEMBER', P .. 'paused', g) == 1 or redis.call('ZSCORE', P .. 'resting', g) then return end
  redis.call('RPUSH', P .. 'ring', g)
  wake(P)
end

-- The one scan; for operators' verbs and for late finishes, never for claims, admissions and settlements in time.
local function ring_exit(P, g)
  redis.call('LREM', P .. 'ring', 0, g)
end

-- Add a job to its lane. `active` may be nil for a job that had no seat; `was_full`: the lane stood at its ceiling
-- until the release in this very command.
local function lane_put(P, g, id, active, was_full)
  local lane = P .. 'g:' .. g .. ':pending'
  local empty = redis.call('EXISTS', lane) == 0
  redis.call('ZADD', lane, 0, id)
  if empty then
    local default = redis.call('HGET', P .. 'meta', 'lane_limit')
    if default and redis.call('HSETNX', P .. 'glimit', g, default) == 1 then
      redis.call('SADD', P .. 'defaulted', g)
    end
  end
  if empty or was_full then ring_enter(P, g, active or lane_active(P, g)) end
end

-- After a release that put nothing back: a lane that stood at its ceiling comes back into the rota; a lane without
-- work and without jobs in flight forgets the ceiling that it had by default.
local function lane_freed(P, g, active, was_full)
  if active > 0 and not was_full then return end
  if redis.call('EXISTS', P .. 'g:' .. g .. ':pending') == 1 then
    if was_full then ring_enter(P, g, active) end
  elseif active <= 0 and redis.call('SREM', P .. 'defaulted', g) == 1 then
    redis.call('HDEL', P .. 'glimit', g)
  end
end

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
