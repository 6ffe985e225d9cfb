--- flow: a job's end reaches its parent, once per child, whatever set the child stood in
--- Keys: P
--- Args: child and parent are ids; link: what flow_link read while the child's row was there
--- Returns: flow_link(P, child, parent) -> link; flow_done(P, child, link, result), flow_failed(P, child, link, error): in
---   this queue at once, else as an entry of the outbox; flow_done_here(P, child, parent, result) and
---   flow_failed_here(P, child, parent, policy, error) -> 'new', 'known' (the child was counted before), 'gone' (nobody
---   waits); flow_release(P, parent). They touch the parent's lane: call them when the child's lane is in order.
--- Refuses: nothing
--- Include: ring
local bury

local function flow_link(P, child, parent)
  local queue, policy = unpack(redis.call('HMGET', P .. 'job:' .. child, 'parent_queue', 'parent_policy'))
  return { id = parent, queue = queue, policy = policy == 'id' and 'id' or 'fp' }
end

local function flow_release(P, parent)
  local row = P .. 'job:' .. parent
  local g = redis.call('HGET', row, 'group')
  redis.call('HSET', row, 'state', 'pending')
  redis.call('ZREM', P .. 'parents', parent)
  redis.call('ZADD', P .. 'kin', 0, parent) -- a peer that added it does not list it
  if g then
    lane_put(P, g, parent, nil, false)
  else
    redis.call('ZADD', P .. 'pending', 0, parent)
    wake(P)
  end
end

-- The parent's state, or nil when there is no parent that counts children: no ghost of one is made.
local function flow_parent(P, parent)
  local row = P .. 'job:' .. parent
  return redis.call('EXISTS', row .. ':dependencies') == 1 and redis.call('HGET', row, 'state') or nil
end

local function flow_count(P, parent, state)
  local left = redis.call('DECR', P .. 'job:' .. parent .. ':dependencies')
  if left <= 0 and state == 'awaiting_children' then flow_release(P, parent) end
end

local function flow_done_here(P, child, parent, result)
  local row, state = P .. 'job:' .. parent, flow_parent(P, parent)
  if not state then return 'gone' end
  if redis.call('HSETNX', row .. ':processed', child, result) == 0 then return 'known' end
  redis.call('HDEL', row .. ':failed', child)
  -- A child that died and lived again: an ignored failure was counted when it happened.
  if redis.call('HDEL', row .. ':unsuccessful', child) == 0 then flow_count(P, parent, state) end
  return 'new'
end

local function flow_failed_here(P, child, parent, policy, error_text)
  local row, state = P .. 'job:' .. parent, flow_parent(P, parent)
  if not state then return 'gone' end
  if redis.call('HEXISTS', row .. ':processed', child) == 1 then return 'known' end
  local record = row .. (policy == 'id' and ':unsuccessful' or ':failed')
  if redis.call('HSETNX', record, child, error_text) == 0 then return 'known' end
  if policy == 'id' then
    flow_count(P, parent, state)
  elseif state == 'awaiting_children' then
    redis.call('ZREM', P .. 'parents', parent)
    bury(P, parent, 'child ' .. child .. ' failed: ' .. error_text, redis.call('HGET', row, 'parent'), error_text)
  end
  return 'new'
end

local function flow_done(P, child, link, result)
  if not link.queue then return flow_done_here(P, child, link.id, result) end
  redis.call('RPUSH', P .. 'flow:outbox', table.concat({ link.queue, link.id, child, result }, '\0'))
end

local function flow_failed(P, child, link, error_text)
  if not link.queue then return flow_failed_here(P, child, link.id, link.policy, error_text) end
  local entry = { '', 'fail', link.queue, link.id, child, link.policy, error_text }
  redis.call('RPUSH', P .. 'flow:outbox', table.concat(entry, '\0'))
end
