--- admit_one: take one job into the queue, once
--- Keys: P
--- Args: now (ms), spec: id, payload, lane, due (ms) or delay (ms), max_attempts, backoff, timeout, expires (ms),
---   dedup, window (ms), release ('window' or 'claim'), trace, parent, parent_queue, policy ('fp' or 'id'), children: the job
---   waits for so many, flow: this life of a parent with children in other queues; all but id and payload may be nil
--- Returns: code, holder: 'enqueued', 'scheduled', 'held' (until its children end); 'duplicate' or 'conflict' (same id, other payload) with the id that
---   holds the place; 'kind' when the id is not a JOB. Only the first three write anything.
--- Refuses: nothing: callers in scripts of their own check the code before their first write, or write afterwards
--- Include: ring, schedule_at, dedup
local function admit_one(P, now, spec)
  local id = spec.id
  if string.sub(id, 1, 3) ~= 'JOB' then return 'kind', id end
  local row = P .. 'job:' .. id
  local held = redis.call('HGET', row, 'payload')
  if held then return held == spec.payload and 'duplicate' or 'conflict', id end
  local due = spec.due or (spec.delay and now + spec.delay)
  local de = spec.dedup and P .. 'de:' .. spec.dedup
  if de then
    local holder = dedup_holder(P, spec.dedup)
    if holder then return 'duplicate', holder end
    redis.call('SET', de, id, 'PX', spec.window + math.max(0, (due or now) - now))
  end
  local first = spec.children and 'awaiting_children' or due and 'scheduled' or 'pending'
  local fields = { 'state', first, 'attempts', '0', 'payload', spec.payload }
  local function with(name, value)
    if value then
      fields[#fields + 1] = name
      fields[#fields + 1] = type(value) == 'number' and string.format('%.0f', value) or value
    end
  end
  with('group', spec.lane)
  with('max_attempts', spec.max_attempts)
  with('backoff', spec.backoff)
  with('timeout_ms', spec.timeout)
  with('expires_at', spec.expires)
  with('dedup', spec.dedup)
  with('trace', spec.trace)
  if spec.release ~= 'claim' then with('dedup_ms', spec.window) end
  with('parent', spec.parent)
  with('parent_queue', spec.parent_queue)
  with('parent_policy', spec.policy)
  with('children', spec.children)
  with('flow', spec.flow)
  redis.call('HSET', row, unpack(fields))
  if spec.children then
    redis.call('DEL', row .. ':processed', row .. ':failed', row .. ':unsuccessful') -- an earlier life may have left them
    redis.call('SET', row .. ':dependencies', string.format('%.0f', spec.children))
    redis.call('ZADD', P .. 'parents', now, id)
    redis.call('ZADD', P .. 'kin', 0, id)
    return 'held', id
  elseif due then
    schedule_at(P, id, due)
    return 'scheduled', id
  elseif spec.lane then
    lane_put(P, spec.lane, id, nil, false)
  else
    redis.call('ZADD', P .. 'pending', 0, id)
    wake(P)
  end
  return 'enqueued', id
end
