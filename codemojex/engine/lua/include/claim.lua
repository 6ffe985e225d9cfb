--- claim: hand out jobs fairly, within every limit
--- Keys: P
--- Args: now, n, lease_ms, max_bytes, mode: 'all' (lanes and flat, what is due comes back first), 'flat', 'lane' (one
---   lane's turn) or 'whole' (one lane's backlog)
--- Returns: claim(...) -> limited_ms, next_due_ms (-1: nothing waits), paused (1 or 0), then per job: id, payload,
---   token, lane, failures, stalled, timeout_ms ('' for none); all in one flat list; the deadline of all is now +
---   lease_ms
--- Refuses: nothing
--- Include: due, lane_turn
local function claim(P, now, n, lease_ms, max_bytes, mode)
  local m = read_meta(P)
  if m.paused then return { 0, -1, 1 } end
  local all = mode == 'all'
  if all then
    wake_rested(P, now, 100)
    promote_due(P, now, 100)
  end
  local units = budget(P, now, m)
  local want = math.min(n, units)
  if m.concurrency and m.concurrency > 0 then
    want = math.min(want, m.concurrency - redis.call('ZCARD', P .. 'active'))
  end
  local c = {
    now = now, lease_ms = lease_ms, max_bytes = max_bytes, want = want, served = 0, bytes = 0, steps = 0,
    max_steps = 2 * n + 200, jobs = { 0, -1, 0 }, active = {}, meta = m, whole = mode == 'whole',
    ring = mode ~= 'flat' and redis.call('LLEN', P .. 'ring') or 0,
    resting = redis.call('EXISTS', P .. 'resting') == 1,
    weighted = redis.call('EXISTS', P .. 'gweight') == 1,
    paced = m.lane_rate or m.lane_kinds or redis.call('EXISTS', P .. 'grate') == 1,
  }
  if c.weighted and c.ring > 0 and want > 0 then
    local credit = redis.call('GETDEL', P .. 'credit')
    if credit then
      c.credit_lane, c.credit = string.sub(credit, 1, 14), tonumber(string.sub(credit, 16))
    end
  end
  local flat = (all or mode == 'flat') and redis.call('ZCARD', P .. 'pending') or 0
  local mixed = flat > 0 and c.ring > 0
  local turns = mixed and tonumber(redis.call('GET', P .. 'turns')) or 0
  -- Flat work is one more lane of the rota: it has its turn after every lane that can be served has had one.
  while c.served < want and c.bytes < max_bytes and c.steps < c.max_steps and (c.ring > 0 or flat > 0) do
    c.steps = c.steps + 1
    if flat > 0 and (c.ring == 0 or turns >= c.ring) then
      turns, flat = 0, flat - 1
      if hand_out(P, redis.call('ZPOPMIN', P .. 'pending')[1], nil, c) then c.served = c.served + 1 end
    else
      turns = turns + 1
      lane_turn(P, c)
      c.credit_lane = nil
      if not (all or c.served == 0) then break end
    end
  end
  if mixed then redis.call('SET', P .. 'turns', turns, 'PX', 3600000) end
  if c.served > 0 then
    redis.call('ZADD', P .. 'active', unpack(c.active))
    spend(P, now, m, c.served)
  end
  local left = c.ring > 0 or flat > 0
  if all and not left then redis.call('DEL', P .. 'wake') end
  if c.served >= n or c.bytes >= max_bytes then
    -- Work is left and this worker is full: the next parked one comes, and it calls the one after.
    if left and redis.call('EXISTS', P .. 'wake') == 0 then wake(P) end
    return c.jobs
  end
  if c.served >= units then c.jobs[1] = limited_for(P, now, m) end
  c.jobs[2] = c.steps >= c.max_steps and left and 1 or next_due(P, now)
  return c.jobs
end
