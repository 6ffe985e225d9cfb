--- lane_explain: what decides whether a lane is served
--- Keys: P
--- Args: lane
--- Returns: now, depth, in flight, ceiling or nil, lane paused, rests until or nil, queue paused, ms until the queue's
---   budget has a unit, queue concurrency or nil, jobs in flight, lanes in the ring, its place there or nil
--- Refuses: nothing
--- Include: now, limiter, lane_visit
local P, g = KEYS[1], ARGV[1]
local now, m = now_ms(), read_meta(P)
return {
  now, redis.call('ZCARD', P .. 'g:' .. g .. ':pending'), lane_active(P, g), redis.call('HGET', P .. 'glimit', g),
  redis.call('SISMEMBER', P .. 'paused', g), redis.call('ZSCORE', P .. 'resting', g), m.paused and 1 or 0,
  limited_for(P, now, m), m.concurrency or false, redis.call('ZCARD', P .. 'active'), redis.call('LLEN', P .. 'ring'),
  redis.call('LPOS', P .. 'ring', g),
}
