--- settle: end many attempts, each under its token, and claim for the free places in the same step
--- Keys: P, then the keys of every effect
--- Args: items (msgpack: lists {id, token, kind, a, b, c, effect, first key, keys, first arg, args}), max_attempts,
---   backoff, n (0: claim nothing), lease_ms, max_bytes, lane_limit (0: none), then the args of every effect and the results: a of a
---   completion says where its result stands
--- Returns: now, a flat list of verdict, detail, reply per item (see settle_one), the claim (see claim)
--- Refuses: nothing; READONLY, NOREPLICAS and MISCONF of a server that takes no writes
--- Include: now, admit_one, mint_event, append_events, claim, settle_one
local P = KEYS[1]
local now = now_ms()
--- Effects

local function slice(list, first, count)
  local out = {}
  for i = 1, count do out[i] = list[first + i - 1] end
  return out
end

local function run_effect(item)
  if not item[7] then return nil end
  local ok, reply = pcall(effects[item[7]], slice(KEYS, item[8], item[9]), slice(ARGV, item[10], item[11]))
  if ok and not (type(reply) == 'table' and reply.err) then return nil, reply end
  return type(reply) == 'table' and tostring(reply.err) or tostring(reply)
end

local NOT_NOW = { READONLY = true, NOREPLICAS = true, MISCONF = true }
local out, done, batch = {}, 0, { ids = {}, names = {}, seats = {} }
for _, item in ipairs(cmsgpack.unpack(ARGV[1])) do
  if item[3] == 'complete' and item[4] then item[4] = ARGV[item[4]] end
  local ok, verdict, detail, reply = pcall(settle_one, P, now, item, run_effect, tonumber(ARGV[2]), ARGV[3], batch)
  if not ok then verdict, detail = 'effect_failed', tostring(verdict) end
  -- A server that takes no writes refuses the first one of the script: nothing is settled, and no job is to blame.
  if verdict == 'effect_failed' and NOT_NOW[tostring(detail):match('^%u+')] then return redis.error_reply(detail) end
  local i = #out
  out[i + 1], out[i + 2], out[i + 3] = verdict, detail or false, reply or false
  if detail == 'completed' then done = done + 1 end
end
settle_rest(P, batch)
if done > 0 then redis.call('HINCRBY', P .. 'metrics:completed', 'count', done) end
local n = tonumber(ARGV[4])
if n == 0 and redis.call('HEXISTS', P .. 'meta', 'concurrency') == 1 then wake(P) end -- seats are free again
return { now, out, n > 0 and claim(P, now, n, tonumber(ARGV[5]), tonumber(ARGV[6]), 'all', tonumber(ARGV[7])) or { 0, -1, 0 } }
