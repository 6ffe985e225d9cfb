--- claim: hand out jobs fairly, within every limit
--- Keys: P
--- Args: now, n, lease_ms, max_bytes, mode: 'all' (lanes and flat, what is due comes back first), 'flat', 'lane' (one
---   lane's turn) or 'whole' (one lane's backlog), lane_limit: the ceiling of a lane that has none (nil or 0: no ceiling)
--- Returns: claim(...) -> limited_ms, next_due_ms (-1: nothing waits), paused (1 or 0), then per job: id, payload,
---   token, lane, failures, stalled, timeout_ms ('' for none); all in one flat list; the deadline of all is now +
---   lease_ms
--- Refuses: nothing
--- Include: due, seats, lane_turn
local function claim_room(P, now, n, m)
  local units = budget(P, now, m)
  local want = math.min(n, units)
  if m.concurrency and m.concurrency > 0 then
    want = math.min(want, m.concurrency - redis.call('ZCARD', P .. 'active'))
  end
  return want, units
end

local function claim_rota(P, c, mode)
  c.ring = mode ~= 'flat' and redis.call('LLEN', P .. 'ring') or 0
  c.flat = (mode == 'all' or mode == 'flat') and redis.call('ZCARD', P .. 'pending') or 0
  c.resting = redis.call('EXISTS', P .. 'resting') == 1
  local fields = { glimit = 'limits', gweight = 'weights', grate = 'paces' }
  for key, field in pairs(fields) do
    if redis.call('EXISTS', P .. key) == 1 then c.hashes[field] = key end
  end
  if c.hashes.limits or c.lane_limit then c.hashes.actives = 'gactive' end
  local credit = c.hashes.weights and c.ring > 0 and redis.call('GETDEL', P .. 'credit')
  if credit then c.credit_lane, c.credit = string.sub(credit, 1, 14), tonumber(string.sub(credit, 16)) end
  -- Flat work is one more lane of the rota: it has its turn after every lane that can be served has had one. A turn that
  -- was cut short is finished before anything else, and counts once.
  local mixed = c.flat > 0 and c.ring > 0
  local turns = mixed and tonumber(redis.call('GET', P .. 'turns')) or 0
  while c.served < c.want and c.bytes < c.max_bytes and c.steps < c.max_steps and (c.ring > 0 or c.flat > 0) do
    c.steps = c.steps + 1
    if c.flat > 0 and (c.ring == 0 or turns >= c.ring and not c.credit_lane) then
      turns, c.flat = 0, c.flat - 1
      if hand_out(P, redis.call('ZPOPMIN', P .. 'pending')[1], nil, c) then c.served = c.served + 1 end
    else
      if lane_turn(P, c) ~= c.credit_lane then turns = turns + 1 end
      c.credit_lane = nil
      if c.one_lane and c.served > 0 then break end
    end
  end
  put_back(P, c)
  if mixed then redis.call('SET', P .. 'turns', turns, 'PX', 3600000) end
end

local function claim(P, now, n, lease_ms, max_bytes, mode, lane_limit)
  local m = read_meta(P)
  if m.paused then return { 0, -1, 1 } end
  if mode == 'all' then
    wake_rested(P, now, 100)
    promote_due(P, now, 100)
  end
  local want, units = claim_room(P, now, n, m)
  local c = {
    now = now, lease_ms = lease_ms, max_bytes = max_bytes, want = want, served = 0, bytes = 0, steps = 0,
    max_steps = 2 * n + 200, jobs = { 0, -1, 0 }, active = {}, meta = m, hashes = {}, heads = {}, head = 0, back = {},
    lanes = {}, seats = {}, kinds = {}, dead = {}, whole = mode == 'whole', mode = mode,
    one_lane = mode == 'lane' or mode == 'whole', lane_limit = (lane_limit or 0) > 0 and lane_limit or nil,
  }
  if want > 0 then claim_rota(P, c, mode) end
  if c.served > 0 then
    redis.call('ZADD', P .. 'active', unpack(c.active))
    take_seats(P, c.lanes, c.seats)
    spend(P, now, m, c.served)
  end
  local full = c.served >= n or c.bytes >= max_bytes
  if mode == 'all' and want > 0 then
    local left = c.ring > 0 or c.flat > 0
    if not left then redis.call('DEL', P .. 'wake') end
    -- Work is left and this worker is full: the next parked one comes, and it calls the one after.
    if left and full and redis.call('EXISTS', P .. 'wake') == 0 then wake(P) end
  end
  -- Parents may have lanes of their own: they are told when the rota stands in the ring again.
  for _, d in ipairs(c.dead) do pcall(flow_failed, P, d[1], flow_link(P, d[1], d[2]), d[3]) end
  if full then return c.jobs end
  if c.served >= units then c.jobs[1] = limited_for(P, now, m) end
  c.jobs[2] = c.steps >= c.max_steps and 1 or next_due(P, now)
  return c.jobs
end
