--- remove_job: delete a job wherever it is
--- Keys: P
--- Args: id, dedup key ('' for the one in the row)
--- Returns: 1, or 0 when there is no such job
--- Refuses: EMQLOCK job is locked
--- Include: lane_visit, seats, erase
local P, id = KEYS[1], ARGV[1]
local row = P .. 'job:' .. id
if redis.call('EXISTS', row) == 0 then return 0 end
if redis.call('EXISTS', row .. ':lock') == 1 or redis.call('HEXISTS', row, 'lock') == 1 then
  return redis.error_reply('EMQLOCK job is locked')
end
local g = redis.call('HGET', row, 'group')
local held = redis.call('ZREM', P .. 'active', id) == 1
for _, set in ipairs({ 'pending', 'schedule', 'dead', 'parents' }) do redis.call('ZREM', P .. set, id) end
if ARGV[2] ~= '' then dedup_free(P, ARGV[2], id) end
erase(P, id)
if g then
  redis.call('ZREM', P .. 'g:' .. g .. ':pending', id)
  local active = held and release(P, g) or lane_active(P, g)
  lane_visit(P, g)
  lane_freed(P, g, active, false)
end
return 1
