--- repeat_set: register a repeated job, or change one that is registered
--- Keys: P
--- Args: name, 'register' or 'update', first slot (ms; '' for now + the next argument), first in (ms), most repeats of a
---   queue, template, then pairs of field and value ('' removes the field)
--- Returns: 1, or 0: 'register' found it registered, 'update' did not. An update with the same schedule keeps the
---   coming slot.
--- Refuses: EMQSTATE too many repeated jobs
--- Include: now, repeat_home
local P, name, update = KEYS[1], ARGV[1], ARGV[2] == 'update'
local record = P .. 'repeat:' .. name
local known = redis.call('EXISTS', record) == 1
if known ~= update then return 0 end
if not known and redis.call('ZCARD', P .. 'repeat') + redis.call('ZCARD', P .. 'repeat_ours') >= tonumber(ARGV[5]) then
  return redis.error_reply('EMQSTATE too many repeated jobs: cancel some, the limit of a queue is ' .. ARGV[5])
end
local first = ARGV[3] ~= '' and ARGV[3] or string.format('%.0f', now_ms() + tonumber(ARGV[4]))
local function schedule()
  return table.concat({
    redis.call('HGET', record, 'every_ms') or '', redis.call('HGET', record, 'cron') or '',
    redis.call('HGET', record, 'zone') or '',
  }, '\n')
end
local before = schedule()
redis.call('HSET', record, 'template', ARGV[6])
for i = 7, #ARGV, 2 do
  if ARGV[i + 1] == '' then
    redis.call('HDEL', record, ARGV[i])
  else
    redis.call('HSET', record, ARGV[i], ARGV[i + 1])
  end
end
if not known then redis.call('HSET', record, 'n', redis.call('HINCRBY', P .. 'meta', 'repeats', 1) % 65536) end
repeat_put(P, name, schedule() == before and repeat_slot(P, name) or first)
return 1
