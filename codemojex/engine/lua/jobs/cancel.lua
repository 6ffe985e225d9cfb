--- cancel: end a job that waits, or have the worker told that holds it
--- Keys: P
--- Args: id, reason, the event to publish for a job in flight; of several requests the first one counts
--- Returns: 'cancelled' (it waited and is a dead letter now), 'asked' (it is in flight), 'dead' (it was), 'gone'
--- Refuses: nothing
--- Include: lane_visit, bury, dedup
local P, id, reason = KEYS[1], ARGV[1], ARGV[2]
local row = P .. 'job:' .. id
local state, g, parent, dedup, dedup_ms =
  unpack(redis.call('HMGET', row, 'state', 'group', 'parent', 'dedup', 'dedup_ms'))
if not state then return 'gone' end
if redis.call('ZSCORE', P .. 'dead', id) then return 'dead' end
if redis.call('ZSCORE', P .. 'active', id) then
  if redis.call('HSETNX', row, 'cancel', reason) == 1 then redis.call('PUBLISH', P .. 'events', ARGV[3]) end
  redis.call('HSETNX', row, 'last_error', 'asked to cancel: ' .. reason) -- a peer's reprocess takes it away, see hand_out
  return 'asked'
end
for _, set in ipairs({ 'pending', 'schedule', 'parents' }) do redis.call('ZREM', P .. set, id) end
if g then
  redis.call('ZREM', P .. 'g:' .. g .. ':pending', id)
  lane_visit(P, g)
  lane_freed(P, g, lane_active(P, g), false)
end
if dedup and not dedup_ms then dedup_free(P, dedup, id) end
bury(P, id, 'cancelled: ' .. reason, parent)
return 'cancelled'
