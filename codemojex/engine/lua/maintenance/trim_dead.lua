--- trim_dead: delete the oldest dead letters beyond a number, and those minted before an instant
--- Keys: P
--- Args: keep, before (a JOB id, '' for any age), limit
--- Returns: how many dead letters were deleted; fewer than limit means that none is left to delete
--- Refuses: nothing
--- Include: erase
local P, limit = KEYS[1], tonumber(ARGV[3])
local dead = P .. 'dead'
local surplus = math.min(limit, redis.call('ZCARD', dead) - tonumber(ARGV[1]))
local ids = surplus > 0 and redis.call('ZRANGE', dead, 0, surplus - 1) or {}
if ARGV[2] ~= '' then
  local old = redis.call('ZRANGEBYLEX', dead, '-', '(' .. ARGV[2], 'LIMIT', 0, limit)
  if #old > #ids then ids = old end
end
for _, id in ipairs(ids) do
  redis.call('ZREM', dead, id)
  erase(P, id)
end
return #ids
