"""P's scripts, from the protocol's sections 3 to 5, with their scans of the ring. `peer` runs them."""

from __future__ import annotations

_BOOKS = """
local P, t = KEYS[1], redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local function row(id) return P .. 'job:' .. id end
local function lane(g) return P .. 'g:' .. g .. ':pending' end
local function act_of(g) return tonumber(redis.call('HGET', P .. 'gactive', g)) or 0 end
local function enter(g, act)
  local limit = tonumber(redis.call('HGET', P .. 'glimit', g))
  if redis.call('ZCARD', lane(g)) == 0 or redis.call('SISMEMBER', P .. 'paused', g) == 1 then return end
  if (limit and act >= limit) or redis.call('LPOS', P .. 'ring', g) then return end
  redis.call('RPUSH', P .. 'ring', g)
  redis.call('LPUSH', P .. 'wake', '1')
  redis.call('LTRIM', P .. 'wake', 0, 63)
end
local function leave(g) redis.call('LREM', P .. 'ring', 0, g) end
local function release(g)
  local act = redis.call('HINCRBY', P .. 'gactive', g, -1)
  if act <= 0 then redis.call('HDEL', P .. 'gactive', g) end
  return act
end
local function put(id, g, act)
  redis.call('HSET', row(id), 'state', 'pending')
  if g then
    redis.call('ZADD', lane(g), 0, id)
    enter(g, act or act_of(g))
  else
    redis.call('ZADD', P .. 'pending', 0, id)
  end
end
local function take(id, lease, g)
  local att = redis.call('HINCRBY', row(id), 'attempts', 1)
  redis.call('HSET', row(id), 'state', 'active')
  redis.call('ZADD', P .. 'active', now + lease, id)
  return { id, redis.call('HGET', row(id), 'payload'), tostring(att), g or '' }
end
-- Out of flight, or out of where it waits since its lease was taken back.
local function end_attempt(id)
  local g = redis.call('HGET', row(id), 'group')
  local was_active = redis.call('ZREM', P .. 'active', id) == 1
  if was_active and g then
    enter(g, release(g))
  elseif g then
    redis.call('ZREM', lane(g), id)
    if redis.call('ZCARD', lane(g)) == 0 then leave(g) end
  elseif not was_active then
    redis.call('ZREM', P .. 'pending', id)
  end
  return was_active
end
local function bury(id, reason)
  redis.call('HSET', row(id), 'state', 'dead', 'last_error', reason)
  redis.call('ZADD', P .. 'dead', 0, id)
  redis.call('HINCRBY', P .. 'metrics:failed', 'count', 1)
end
local function count_down(parent)
  if redis.call('DECR', row(parent) .. ':dependencies') > 0 then return end
  redis.call('ZADD', P .. 'pending', 0, parent)
  redis.call('HSET', row(parent), 'state', 'pending')
end
local function parent_dies(parent, child, reason)
  redis.call('HSET', row(parent) .. ':failed', child, reason)
  redis.call('HSET', row(parent), 'state', 'dead')
  redis.call('ZADD', P .. 'dead', 0, parent)
  redis.call('ZREM', P .. 'pending', parent)
end
"""
_VERBS = {
    "enqueue": """
local id, payload, g, delay = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4])
if redis.call('EXISTS', row(id)) == 1 then return 0 end
redis.call('HSET', row(id), 'state', delay and 'scheduled' or 'pending', 'attempts', '0', 'payload', payload)
if g ~= '' then redis.call('HSET', row(id), 'group', g) end
if delay then redis.call('ZADD', P .. 'schedule', now + delay, id) else put(id, g ~= '' and g) end
return 1""",
    "claim": """
local id = redis.call('ZPOPMIN', P .. 'pending')[1]
return id and take(id, ARGV[1])""",
    "gclaim": """
local g = redis.call('LMOVE', P .. 'ring', P .. 'ring', 'LEFT', 'RIGHT')
if not g then return nil end
local id = redis.call('ZPOPMIN', lane(g))[1]
if not id then leave(g) return nil end
local found, act = take(id, ARGV[1], g), redis.call('HINCRBY', P .. 'gactive', g, 1)
local limit = tonumber(redis.call('HGET', P .. 'glimit', g))
if (limit and act >= limit) or redis.call('ZCARD', lane(g)) == 0 then leave(g) end
return found""",
    "complete": """
local id, token, parent, queue, result = unpack(ARGV)
local att = redis.call('HGET', row(id), 'attempts')
if not att then return 0 end
if att ~= token then return redis.error_reply('EMQSTALE complete token mismatch') end
local was_active = end_attempt(id)
if was_active and queue ~= '' then
  redis.call('RPUSH', P .. 'flow:outbox', table.concat({ queue, parent, id, result }, '\\0'))
elseif was_active and parent ~= '' then
  redis.call('HSET', row(parent) .. ':processed', id, result)
  count_down(parent)
end
redis.call('DEL', row(id))
redis.call('HINCRBY', P .. 'metrics:completed', 'count', 1)
return 1""",
    "retry": """
local id, token, delay, max, reason, parent, queue, policy = unpack(ARGV)
local att = redis.call('HGET', row(id), 'attempts')
if att ~= token then return redis.error_reply('EMQSTALE retry token mismatch') end
end_attempt(id)
redis.call('HSET', row(id), 'last_error', reason)
if tonumber(att) < tonumber(max) then
  redis.call('HSET', row(id), 'state', 'scheduled')
  redis.call('ZADD', P .. 'schedule', now + delay, id)
  return 'scheduled'
end
bury(id, reason)
if queue ~= '' then
  redis.call('RPUSH', P .. 'flow:outbox', table.concat({ '', 'fail', queue, parent, id, policy, reason }, '\\0'))
elseif parent ~= '' and policy == 'id' then
  redis.call('HSET', row(parent) .. ':unsuccessful', id, reason)
  count_down(parent)
elseif parent ~= '' then
  parent_dies(parent, id, reason)
end
return 'dead'""",
    "delay": """
local id, token, ms, keeps_seat = ARGV[1], ARGV[2], ARGV[3], ARGV[4] == '1'
if redis.call('HGET', row(id), 'attempts') ~= token then return redis.error_reply('EMQSTALE delay token mismatch') end
if keeps_seat then redis.call('ZREM', P .. 'active', id) else end_attempt(id) end
redis.call('HSET', row(id), 'state', 'scheduled')
redis.call('ZADD', P .. 'schedule', now + ms, id)
return 1""",
    "promote": """
local due = redis.call('ZRANGEBYSCORE', P .. 'schedule', '-inf', now, 'LIMIT', 0, 100)
for _, id in ipairs(due) do
  redis.call('ZREM', P .. 'schedule', id)
  put(id, redis.call('HGET', row(id), 'group'))
end
return #due""",
    "reap": """
local lapsed = redis.call('ZRANGEBYSCORE', P .. 'active', '-inf', now, 'LIMIT', 0, 100)
for _, id in ipairs(lapsed) do
  local g = redis.call('HGET', row(id), 'group')
  redis.call('ZREM', P .. 'active', id)
  put(id, g, g and release(g))
end
return #lapsed""",
    "stalled": """
local lapsed = redis.call('ZRANGEBYSCORE', P .. 'active', '-inf', now, 'LIMIT', 0, 100)
for _, id in ipairs(lapsed) do
  redis.call('ZREM', P .. 'active', id)
  local g = redis.call('HGET', row(id), 'group')
  local act = g and release(g)
  if redis.call('HINCRBY', row(id), 'stalled', 1) < tonumber(ARGV[1]) then
    put(id, g, act)
  else
    bury(id, 'stalled')
    if g and ARGV[2] == '0' then enter(g, act) end
  end
end
return #lapsed""",
    "reprocess": """
local id, flat = ARGV[1], ARGV[2] == '1'
if redis.call('ZREM', P .. 'dead', id) == 0 then return 0 end
redis.call('HDEL', row(id), 'last_error')
put(id, not flat and redis.call('HGET', row(id), 'group'))
return 1""",
    "pause": """
redis.call('SADD', P .. 'paused', ARGV[1])
leave(ARGV[1])""",
    "resume": """
redis.call('SREM', P .. 'paused', ARGV[1])
enter(ARGV[1], act_of(ARGV[1]))""",
    "limit": """
local g, n = ARGV[1], tonumber(ARGV[2])
redis.call('HSET', P .. 'glimit', g, n)
if act_of(g) >= n then leave(g) else enter(g, act_of(g)) end""",
    "hold": """
redis.call('HSET', row(ARGV[1]), 'state', 'awaiting_children', 'attempts', '0', 'payload', ARGV[2])
redis.call('SET', row(ARGV[1]) .. ':dependencies', ARGV[3])""",
    "child": """
local id, payload, parent, queue, policy = unpack(ARGV)
redis.call('HSET', row(id), 'state', 'pending', 'attempts', '0', 'payload', payload)
redis.call('HSET', row(id), 'parent', parent, 'parent_policy', policy)
if queue ~= '' then redis.call('HSET', row(id), 'parent_queue', queue) end
redis.call('ZADD', P .. 'pending', 0, id)""",
    "tell_done": """
local parent, child, result = unpack(ARGV)
if redis.call('HSETNX', row(parent) .. ':processed', child, result) == 1 then count_down(parent) end""",
    "tell_failed": """
local parent, child, policy, reason = unpack(ARGV)
if redis.call('HEXISTS', row(parent) .. ':failed', child) == 1 then return end
if policy ~= 'id' then
  parent_dies(parent, child, reason)
elseif redis.call('HSETNX', row(parent) .. ':unsuccessful', child, reason) == 1 then
  count_down(parent)
end""",
    "fire": """
local name, id = ARGV[1], ARGV[2]
local every, template = unpack(redis.call('HMGET', P .. 'repeat:' .. name, 'every_ms', 'template'))
if not every then
  if ARGV[3] == '1' then redis.call('ZREM', P .. 'repeat', name) end
  return 0
end
redis.call('HSET', row(id), 'state', 'pending', 'attempts', '0', 'payload', template)
redis.call('ZADD', P .. 'pending', 0, id)
redis.call('ZADD', P .. 'repeat', now + every, name)
return 1""",
}


def script(verb: str) -> str:
    """The text of one verb; its key is the queue's prefix."""
    return _BOOKS + _VERBS[verb]
