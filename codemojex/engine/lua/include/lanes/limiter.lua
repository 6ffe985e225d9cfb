--- limiter: the queue's budget and a lane's pace, spent one unit per job handed out
--- Keys: P
--- Args: m: the table of read_meta
--- Returns: read_meta(P), gcra(tat, now, rate, burst) -> units, start; budget(P, now, m) -> units; spend(P, now, m, k);
---   limited_for(P, now, m) -> ms until the next unit, 0 when there is one
--- Refuses: nothing
local META = {
  'paused', 'limiter', 'concurrency', 'max', 'duration', 'rate', 'burst', 'lane_rate', 'lane_burst', 'lane_kinds',
}

local function read_meta(P)
  local m = {}
  for i, value in ipairs(redis.call('HMGET', P .. 'meta', unpack(META))) do
    m[META[i]] = i < 3 and value or tonumber(value) or nil
  end
  m.bucket = m.limiter == 'bucket' and m.rate and m.burst
  m.max = not m.bucket and m.max and m.max > 0 and m.max or nil
  return m
end

-- Token bucket as one number, the theoretical arrival time: never more than burst + rate*T units in any interval T.
local function gcra(tat, now, rate, burst)
  local start = math.max(tonumber(tat) or 0, now)
  return math.floor(burst - (start - now) * rate / 1000), start
end

local function gcra_save(key, now, tat)
  redis.call('SET', key, string.format('%.4f', tat), 'PX', math.max(1, math.ceil(tat - now)))
end

local function gcra_wait(start, now, rate, burst)
  return math.max(1, math.ceil(start - now - (burst - 1) * 1000 / rate))
end

local function budget(P, now, m)
  local key = P .. 'limiter'
  if m.bucket then return math.max(0, (gcra(redis.call('GET', key), now, m.rate, m.burst))) end
  if not m.max then return math.huge end
  local used = tonumber(redis.call('GET', key)) or 0
  if used >= m.max then
    local left = redis.call('PTTL', key)
    if left < 0 then
      redis.call('DEL', key) -- a counter without a life time would stop the queue for ever
      used = 0
    elseif m.duration and left > m.duration then
      redis.call('PEXPIRE', key, m.duration) -- the window was begun under a longer setting
    end
  end
  return math.max(0, m.max - used)
end

local function spend(P, now, m, k)
  local key = P .. 'limiter'
  if m.bucket then
    local _, start = gcra(redis.call('GET', key), now, m.rate, m.burst)
    gcra_save(key, now, start + k * 1000 / m.rate)
  elseif m.max and redis.call('INCRBY', key, k) == k then
    redis.call('PEXPIRE', key, m.duration or 1000)
  end
end

local function limited_for(P, now, m)
  if budget(P, now, m) >= 1 then return 0 end
  if not m.bucket then return math.max(1, redis.call('PTTL', P .. 'limiter')) end
  local _, start = gcra(redis.call('GET', P .. 'limiter'), now, m.rate, m.burst)
  return gcra_wait(start, now, m.rate, m.burst)
end
