--- settle_one: end one attempt of one job, under its token
--- Keys: P
--- Args: now, item: {id, token, kind, x, y, z}, run_effect: called after the fence and before the first write; kinds
---   are complete (result for the parent or nil), retry (error, delay ms or nil, chance), delay (ms, due ms or nil),
---   park (ms), discard (error), give_back; max_attempts and backoff count where the row has none of its own; b: {ids, names, seats} of the batch
--- Returns: settle_one(...) -> verdict, detail, reply: 'settled' with the new state and the effect's reply, 'stale',
---   'gone', 'effect_failed' with the reason
--- Refuses: nothing: the verdict is a value, so that one bad item spoils no other
--- Include: seats, schedule_at, bury, dedup, backoff, tally, rest
-- Take the job out of where it stands: in flight, or waiting since its lease lapsed.
-- Seats and ids of the batch are collected in `b` and given back together, see settle_rest.
local function leave(P, id, state, g, b)
  if state == 'active' then
    b.ids[#b.ids + 1] = id
    if g then
      if not b.seats[g] then b.names[#b.names + 1] = g end
      b.seats[g] = (b.seats[g] or 0) + 1
    end
  elseif g then
    local lane = P .. 'g:' .. g .. ':pending'
    if redis.call('ZREM', lane, id) == 0 then
      redis.call('ZREM', P .. 'pending', id) -- a peer's reprocess puts it there
    elseif redis.call('EXISTS', lane) == 0 then
      ring_exit(P, g)
      lane_freed(P, g, lane_active(P, g), false)
    end
  else
    redis.call('ZREM', P .. 'pending', id)
  end
end

local function settle_rest(P, b)
  if #b.ids > 0 then redis.call('ZREM', P .. 'active', unpack(b.ids)) end
  release_many(P, b.names, b.seats)
end

-- When a wait is over; nil for what is no wait. A peer may send anything and a row may hold anything, NaN too.
local LAST_MS = 4102444800000
local function due_at(now, ms, at)
  local due = tonumber(at) or now + (tonumber(ms) or -1)
  return (at or due >= now) and due >= 0 and due <= LAST_MS and due or nil
end

local function settle_one(P, now, item, run_effect, max_attempts, backoff, b)
  local id, token, kind = item[1], item[2], item[3]
  local row = P .. 'job:' .. id
  local attempts, state, g, dedup_ms, parent, children, lapsed, counted =
    unpack(redis.call('HMGET', row, 'attempts', 'state', 'group', 'dedup_ms', 'parent', 'children', 'lapsed', 'counted'))
  if not attempts then return 'gone' end
  -- A late holder may still end a job that waits because the lease lapsed, whoever took it back: a peer leaves no trace of
  -- that. One that waits after a settlement (counted, and not as a lapse), a repeat of that settlement may not touch.
  local late = state == 'pending' and token ~= '0' and (counted ~= token or lapsed == token)
  if attempts ~= token or not (state == 'active' or late) then return 'stale' end
  local failure, reply = run_effect(item)
  if failure then return 'effect_failed', failure end

  local due, rest, error_text, charged, cap, pause, failures
  if kind ~= 'complete' then
    charged, cap, pause = unpack(redis.call('HMGET', row, 'failures', 'max_attempts', 'backoff'))
    failures = tally(charged, counted, token)
  end
  if kind == 'retry' then
    failures = (tonumber(failures) or 0) + 1
    if failures >= (tonumber(cap) or max_attempts) then
      error_text = tostring(item[4])
    else
      due = due_at(now, item[5] or backoff_ms(pause or backoff, failures, item[6]))
    end
  elseif kind == 'delay' then
    due = due_at(now, item[4], item[5])
  elseif kind == 'discard' then
    error_text = tostring(item[4])
  elseif kind == 'park' then
    rest = due_at(now, item[4])
    due = not g and rest
  end
  if not (due or rest or error_text) and (kind == 'retry' or kind == 'delay' or kind == 'park') then
    return 'effect_failed', 'ERR the wait of ' .. kind .. ' is no number of ms in range'
  end
  local after = kind == 'complete' and 'completed' or error_text and 'dead' or due and 'scheduled' or 'pending'
  local link = parent and after == 'completed' and flow_link(P, id, parent)
  local dedup = dedup_ms and redis.call('HGET', row, 'dedup')

  -- The row before the rest: a server without memory refuses the first write, and nothing has happened yet.
  if after == 'completed' and children then
    redis.call('DEL', row, row .. ':dependencies', row .. ':processed', row .. ':failed', row .. ':unsuccessful')
    redis.call('ZREM', P .. 'kin', id)
  elseif after == 'completed' then
    redis.call('DEL', row)
  else
    local fields = { 'state', after, 'counted', token }
    if failures ~= charged then fields[5], fields[6] = 'failures', failures end
    if kind == 'retry' then fields[#fields + 1], fields[#fields + 2] = 'last_error', tostring(item[4]) end
    redis.call('HSET', row, unpack(fields))
    if lapsed then redis.call('HDEL', row, 'lapsed') end
  end
  leave(P, id, state, g, b)
  if kind == 'park' and g then
    rest_told(P, g, rest)
    redis.call('LREM', P .. 'ring', -1, g) -- it was served a moment ago: the search starts at the tail
  end
  if after == 'dead' then
    bury(P, id, error_text, parent)
  elseif after == 'scheduled' then
    schedule_at(P, id, due)
  elseif after == 'pending' and g then
    lane_put(P, g, id, nil, false)
  elseif after == 'pending' then
    redis.call('ZADD', P .. 'pending', 0, id)
    wake(P)
  end
  if link then flow_done(P, id, link, item[4] or id) end
  if dedup then dedup_keep(P, dedup, id, dedup_ms + math.max(0, (due or now) - now)) end
  if dedup and after == 'completed' then dedup_done(P, dedup, id, dedup_ms) end
  return 'settled', after, reply
end
