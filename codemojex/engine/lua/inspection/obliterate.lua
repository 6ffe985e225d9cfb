--- obliterate: delete a paused queue, at most `budget` jobs per call
--- Keys: P
--- Args: force (1: also jobs in flight), budget
--- Returns: 1 when more is left, 2 when only ends of children for parents in other queues are, 0 when nothing is
--- Refuses: EMQSTATE not paused; EMQSTATE active jobs present
--- Include: erase, rest
local P, budget = KEYS[1], tonumber(ARGV[2])
if redis.call('HEXISTS', P .. 'meta', 'paused') == 0 then return redis.error_reply('EMQSTATE not paused') end
if ARGV[1] ~= '1' and redis.call('EXISTS', P .. 'active') == 1 then
  return redis.error_reply('EMQSTATE active jobs present')
end
local function empty(set)
  local ids = budget > 0 and redis.call('ZPOPMIN', set, budget) or {}
  for i = 1, #ids, 2 do erase(P, ids[i], true) end
  budget = budget - #ids / 2
end
for _, set in ipairs({ 'active', 'pending', 'schedule', 'dead' }) do empty(P .. set) end
-- Every lane with work is in one of these four; `first` names one of them, `forget` takes it out.
local function lanes(key, first, forget)
  local g = budget > 0 and first(key)
  while g do
    empty(P .. 'g:' .. g .. ':pending')
    if budget <= 0 then return end
    redis.call('DEL', P .. 'pace:' .. g)
    forget(key, g)
    budget = budget - 1
    g = budget > 0 and first(key)
  end
end
lanes(P .. 'ring', function(key) return redis.call('LINDEX', key, 0) end,
  function(key) redis.call('LPOP', key) end)
lanes(P .. 'paused', function(key) return redis.call('SRANDMEMBER', key) end,
  function(key, g) redis.call('SREM', key, g) end)
lanes(P .. 'resting', function(key) return redis.call('ZRANGE', key, 0, 0)[1] end,
  function(_, g) rest_end(P, g) end)
lanes(P .. 'gactive', function(key) return redis.call('HRANDFIELD', key) end,
  function(key, g) redis.call('HDEL', key, g) end)
while budget > 0 do -- what still waits has its children in other queues
  local parent = redis.call('ZPOPMIN', P .. 'parents')[1]
  if not parent then break end
  if redis.call('HGET', P .. 'job:' .. parent, 'state') == 'awaiting_children' then erase(P, parent, true) end
  budget = budget - 1
end
if budget <= 0 then return 1 end
if redis.call('EXISTS', P .. 'flow:outbox') == 1 then return 2 end
for _, set in ipairs({ P .. 'repeat', P .. 'repeat_ours' }) do
  for _, name in ipairs(redis.call('ZRANGE', set, 0, -1)) do redis.call('DEL', P .. 'repeat:' .. name) end
end
for _, name in ipairs({
  'metrics:completed', 'metrics:failed', 'metrics:completed:data', 'metrics:failed:data', 'glimit', 'gweight', 'grate',
  'gdefault', 'parked', 'tended', 'metrics:blocked', 'credit', 'turns', 'wake', 'limiter', 'repeat', 'repeat_ours',
  'kin', 'flow:sent', 'flow:rejected', 'meta',
}) do
  redis.call('DEL', P .. name)
end
return 0
