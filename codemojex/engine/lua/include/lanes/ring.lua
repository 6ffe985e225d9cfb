--- ring: who stands in the rota of serviceable lanes, decided without scanning it
--- Keys: P
--- Args: none
--- Returns: lane_active(P, g), ring_enter(P, g, active), ring_return(P, g), ring_exit(P, g),
---   forget_default(P, g), lane_put(P, g, id, active, was_full), lane_freed(P, g, active, was_full)
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

-- Enter a lane that comes back from a rest. A peer knows no rests and may have put it into the ring meanwhile: the last
-- thousand lanes are looked at, and a pump's visit looks at all of them.
local function ring_return(P, g)
  if redis.call('EXISTS', P .. 'g:' .. g .. ':pending') == 0 then return end
  if not redis.call('LPOS', P .. 'ring', g, 'RANK', -1, 'MAXLEN', 1000) then ring_enter(P, g, lane_active(P, g)) end
end

-- The one scan; for operators' verbs and for late finishes, never for claims, admissions and settlements in time.
local function ring_exit(P, g)
  redis.call('LREM', P .. 'ring', 0, g)
end

-- Forget the ceiling that the lane has by default, while it is still the one that we wrote.
local function forget_default(P, g)
  local written = redis.call('HGET', P .. 'gdefault', g)
  if not written then return end
  redis.call('HDEL', P .. 'gdefault', g)
  if redis.call('HGET', P .. 'glimit', g) == written then redis.call('HDEL', P .. 'glimit', g) end
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
      redis.call('HSET', P .. 'gdefault', g, default)
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
  elseif active <= 0 then
    forget_default(P, g)
  end
end
