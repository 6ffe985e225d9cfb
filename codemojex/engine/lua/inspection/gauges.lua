--- gauges: leases, limiter and schedule at one instant
--- Keys: P
--- Args: none
--- Returns: now, lapsed leases, first and last deadline ('' without jobs in flight), limiter ('window', 'bucket' or ''),
---   its size (jobs of a window or burst), window ms or units a second as text, units left, ms until there is one, queue
---   concurrency or nil, ms until the next scheduled job or resting lane (-1: none)
--- Refuses: nothing
--- Include: now, limiter, due
local P, now = KEYS[1], now_ms()
local m = read_meta(P)
local function deadline(place) return redis.call('ZRANGE', P .. 'active', place, place, 'WITHSCORES')[2] or '' end
local kind = m.bucket and 'bucket' or m.max and 'window' or ''
return {
  now, redis.call('ZCOUNT', P .. 'active', '-inf', now), deadline(0), deadline(-1), kind,
  kind == 'bucket' and m.burst or m.max or 0, tostring(kind == 'bucket' and m.rate or m.duration or 0),
  kind == '' and 0 or budget(P, now, m), limited_for(P, now, m), m.concurrency or false, next_due(P, now),
}
