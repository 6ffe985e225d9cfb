--- stream_trim: drop the oldest records, but none that a group still needs or the archive does not have
--- Keys: the stream
--- Args: 'maxlen' or 'minid', the threshold, '=' or '~', '1' to trim whoever needs it, the first stream id that the
---   archive still needs or '', how many records to look at
--- Returns: removed, who holds records back or '', the first id held back or '', '1' when more is left to remove
--- Refuses: nothing
--- Include: stream_order
local stream, kind, threshold, operator = KEYS[1], ARGV[1], ARGV[2], ARGV[3]
local forced, budget = ARGV[4] == '1', tonumber(ARGV[6])
if redis.call('EXISTS', stream) == 0 then return {0, '', '', '0'} end

-- The lowest id that somebody still needs.
local bound, holder
local function needs(id, who)
  if not bound or id_less(id, bound) then bound, holder = id, who end
end
if not forced then
  if ARGV[5] ~= '' then needs(ARGV[5], 'archive') end
  for _, flat in ipairs(redis.call('XINFO', 'GROUPS', stream)) do
    local group = {}
    for i = 1, #flat, 2 do group[flat[i]] = flat[i + 1] end
    local ms, tail = string.match(group['last-delivered-id'], '^(%d+)%-(%d+)$')
    needs(string.format('%s-%.0f', ms, tonumber(tail) + 1), 'group:' .. group['name'])
    if group['pending'] > 0 then
      needs(redis.call('XPENDING', stream, group['name'])[2], 'group:' .. group['name'])
    end
  end
end
if not bound then
  return {redis.call('XTRIM', stream, string.upper(kind), operator, threshold), '', '', '0'}
end

if kind == 'minid' then
  local to = string.find(threshold, '-', 1, true) and threshold or threshold .. '-0'
  if not id_less(bound, to) then return {redis.call('XTRIM', stream, 'MINID', operator, to), '', '', '0'} end
  local removed = redis.call('XTRIM', stream, 'MINID', operator, bound)
  local held = redis.call('XRANGE', stream, bound, '(' .. to, 'COUNT', 1)[1]
  return {removed, held and holder or '', held and held[1] or '', '0'}
end

local length = redis.call('XLEN', stream)
local surplus, removed = length - tonumber(threshold), 0
while surplus > 0 and budget > 0 do
  local free = 0
  for _, entry in ipairs(redis.call('XRANGE', stream, '-', '+', 'COUNT', math.min(32, surplus, budget))) do
    if not id_less(entry[1], bound) then
      if free > 0 then removed = removed + redis.call('XTRIM', stream, 'MAXLEN', '=', length - removed - free) end
      return {removed, holder, entry[1], '0'}
    end
    free = free + 1
  end
  removed = removed + redis.call('XTRIM', stream, 'MAXLEN', '=', length - removed - free)
  surplus, budget = surplus - free, budget - free
end
return {removed, '', '', surplus > 0 and '1' or '0'}
