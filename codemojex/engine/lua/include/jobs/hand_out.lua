--- hand_out: turn one waiting id into a job in flight
--- Keys: P
--- Args: id, g (nil for a flat job), c: the claim under way {now, lease_ms, jobs, active, bytes, dead}
--- Returns: hand_out(P, id, g, c) -> true when the job went out; an id without a readable row is dropped, an expired
---   or cancelled job dies; its parent is told at the end of the claim, see c.dead; a lane's job from the flat backlog
---   goes to its lane
--- Refuses: nothing
--- Include: bury, dedup, tally
local MORE = {
  'expires_at', 'failures', 'stalled', 'timeout_ms', 'dedup', 'dedup_ms', 'cancel', 'parent', 'counted', 'last_error', 'group',
}

-- A peer's reprocess leaves a lane's job in the flat backlog. It is served in its lane, where it takes a seat.
local function hand_back(P, id, g, c)
  local before = redis.call('LLEN', P .. 'ring')
  lane_put(P, g, id, lane_active(P, g) + (c.seats[g] or 0), false)
  if c.mode == 'flat' then return end
  c.ring = c.ring + redis.call('LLEN', P .. 'ring') - before
  c.hashes.limits, c.hashes.actives = 'glimit', 'gactive' -- the lane may have got its default ceiling just now
end

local function hand_out_row(P, id, g, c)
  local row = P .. 'job:' .. id
  local attempts, payload = unpack(redis.call('HMGET', row, 'attempts', 'payload'))
  if not attempts then return false end
  local expires, failures, stalled, timeout, dedup, dedup_ms, cancel, parent, counted, last_error, group
  if redis.call('HLEN', row) > (g and 4 or 3) then -- a plain row has no more than the contract's fields
    expires, failures, stalled, timeout, dedup, dedup_ms, cancel, parent, counted, last_error, group =
      unpack(redis.call('HMGET', row, unpack(MORE)))
  end
  if group and not g then
    hand_back(P, id, group, c)
    return false
  end
  -- Every death leaves a `last_error`, and so does the request: when it is gone, the job has been reprocessed since.
  if cancel and not last_error then
    redis.call('HDEL', row, 'cancel')
    cancel = nil
  end
  local ended = expires and (tonumber(expires) or 0) <= c.now and 'expired' or cancel and 'cancelled: ' .. cancel
  if ended then
    bury(P, id, ended)
    if parent then c.dead[#c.dead + 1] = { id, parent, ended } end
    if dedup and not dedup_ms then dedup_free(P, dedup, id) end
    return false
  end
  local token = (tonumber(attempts) or 0) + 1 .. ''
  failures = tally(failures, counted, token)
  redis.call('HSET', row, 'state', 'active', 'attempts', token)
  if dedup and dedup_ms then
    dedup_keep(P, dedup, id, dedup_ms + c.lease_ms)
  elseif dedup then
    dedup_free(P, dedup, id)
  end
  local jobs, active = c.jobs, c.active
  local j = #jobs
  jobs[j + 1], jobs[j + 2], jobs[j + 3], jobs[j + 4] = id, payload or '', token, g or ''
  jobs[j + 5], jobs[j + 6], jobs[j + 7] = failures or '0', stalled or '0', timeout or ''
  active[#active + 1] = c.now + c.lease_ms
  active[#active + 1] = id
  c.bytes = c.bytes + #jobs[j + 2]
  return true
end

-- A row that cannot be read (not a hash, say) must not stop the rota: the id is dropped like one without a row.
local function hand_out(P, id, g, c)
  local ok, went = pcall(hand_out_row, P, id, g, c)
  return ok and went
end
