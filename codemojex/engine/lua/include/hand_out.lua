--- hand_out: turn one waiting id into a job in flight
--- Keys: P
--- Args: id, g (nil for a flat job), c: the claim under way {now, lease_ms, jobs, active, bytes}
--- Returns: hand_out(P, id, g, c) -> true when the job went out; an id without a row is dropped, an expired job dies
--- Refuses: nothing
--- Include: bury, dedup
local ROW = { 'attempts', 'payload', 'expires_at', 'failures', 'stalled', 'timeout_ms', 'dedup', 'dedup_ms' }

local function hand_out(P, id, g, c)
  local row = P .. 'job:' .. id
  local attempts, payload, expires, failures, stalled, timeout, dedup, dedup_ms = unpack(
    redis.call('HMGET', row, unpack(ROW)))
  if not attempts then return false end
  if expires and tonumber(expires) <= c.now then
    bury(P, id, 'expired')
    return false
  end
  local token = string.format('%.0f', attempts + 1)
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
