--- flow_add: take the part of a flow that lies in this queue, whole or not at all
--- Keys: P
--- Args: specs (msgpack: a list of maps, parents first, see admit_one; flow: some children lie elsewhere), '1' to look only
---   (the part may have been added before), the life of the parent that it hangs on ('' for none), then one payload per spec
--- Returns: code, id, life: 'added', with a number that is higher in each life of these ids; 'duplicate' or 'conflict' when
---   the first job, or its idempotency key, is taken; 'taken' when another id is; 'settled' when the part was added for this
---   or a later life of the parent within an hour, and has ended. To look: 'settled' when the first job's end waits in the
---   outbox, 'absent' when nothing is known of it. Only 'added' wrote anything.
--- Refuses: EMQKIND job id must be JOB-namespaced; EMQSTATE the outbox is too long to look through
--- Include: now, admit_one
local P = KEYS[1]
local specs, now = cmsgpack.unpack(ARGV[1]), now_ms()
for i, spec in ipairs(specs) do
  spec.payload = ARGV[i + 3]
  if string.sub(spec.id, 1, 3) ~= 'JOB' then return redis.error_reply('EMQKIND job id must be JOB-namespaced') end
end
local first = specs[1]
local held = redis.call('HGET', P .. 'job:' .. first.id, 'payload')
if held and first.parent and redis.call('HGET', P .. 'job:' .. first.id, 'parent') ~= first.parent then
  return { 'taken', first.id }
elseif held then
  return { held == first.payload and 'duplicate' or 'conflict', first.id }
end

if ARGV[2] == '1' then
  local done = table.concat({ first.parent_queue, first.parent, first.id, '' }, '\0')
  local failed = '\0fail\0' .. done
  local length = redis.call('LLEN', P .. 'flow:outbox')
  if length > 10000 then return redis.error_reply('EMQSTATE the outbox is too long to look through: deliver it first') end
  for from = 0, length, 500 do
    for _, entry in ipairs(redis.call('LRANGE', P .. 'flow:outbox', from, from + 499)) do
      if string.sub(entry, 1, #done) == done or string.sub(entry, 1, #failed) == failed then
        return { 'settled', first.id }
      end
    end
  end
  return { 'absent', first.id }
end

local mark = P .. 'job:' .. first.id .. ':part'
if ARGV[3] ~= '' and tonumber(redis.call('GET', mark) or -1) >= tonumber(ARGV[3]) then
  return { 'settled', first.id }
end
for i = 2, #specs do
  if redis.call('EXISTS', P .. 'job:' .. specs[i].id) == 1 then return { 'taken', specs[i].id } end
end
local time = redis.call('TIME')
local life = string.format('%.0f', time[1] * 1000000 + time[2])
for _, spec in ipairs(specs) do
  spec.flow = spec.flow and life
  local code, holder = admit_one(P, now, spec)
  if code == 'duplicate' then return { code, holder } end -- only the first has an idempotency key
end
if ARGV[3] ~= '' then redis.call('SET', mark, ARGV[3], 'PX', 3600000) end
return { 'added', first.id, life }
