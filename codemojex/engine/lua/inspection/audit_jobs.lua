--- audit_jobs: compare some jobs' rows with the sets they stand in, and a parent's counter with what it heard of its
---   children; set them right if asked
--- Keys: P
--- Args: repair (1 or 0), lane of the ids whose rows may be gone ('' for none), then at most 500 ids
--- Returns: flat list of id, what is wrong
--- Refuses: nothing
--- Include: now, lane_visit, flow
local P, repair, now = KEYS[1], ARGV[1] == '1', now_ms()
local found = {}
-- What is wrong with a parent that waits, and how many children it should wait for.
local function outstanding(row)
  local left, count = redis.call('GET', row .. ':dependencies'), redis.call('HGET', row, 'children')
  if not left then return 'row: waits for children, but counts none', 0 end
  local heard = redis.call('HLEN', row .. ':processed') + redis.call('HLEN', row .. ':unsuccessful')
  local expected = count and count - heard or tonumber(left)
  if expected == tonumber(left) and expected > 0 then return nil end
  return 'row: counts ' .. left .. ' children to wait for, there are ' .. expected, expected
end
local STATE = { active = 'active', schedule = 'scheduled', dead = 'dead', pending = 'pending' }
for i = 3, #ARGV do
  local id = ARGV[i]
  local row = P .. 'job:' .. id
  local state, group = unpack(redis.call('HMGET', row, 'state', 'group'))
  local lane = group or (ARGV[2] ~= '' and ARGV[2])
  local sets = { 'active', 'schedule', 'dead', 'pending' }
  if lane then sets[5] = 'g:' .. lane .. ':pending' end
  local places = {}
  for _, set in ipairs(sets) do
    if redis.call('ZSCORE', P .. set, id) then places[#places + 1] = set end
  end
  local place, what = places[1], nil
  if not state and place then
    what = 'row: is gone, but the id stands in ' .. table.concat(places, ', ')
  elseif #places > 1 then
    what = 'row: stands in ' .. table.concat(places, ', ') .. ' at once'
  elseif state and not place and state ~= 'awaiting_children' then
    what = 'row: stands in no set, its state is ' .. state
  elseif state and place and (STATE[place] or 'pending') ~= state then
    what = 'row: stands in ' .. place .. ', but its state is ' .. state
  elseif state and group and place == 'pending' then
    what = 'row: stands in the flat backlog, but belongs to lane ' .. group
  end
  local left
  if not what and state == 'awaiting_children' and not place then what, left = outstanding(row) end
  if left then
    found[#found + 1] = id
    found[#found + 1] = what
    if repair and left > 0 then redis.call('SET', row .. ':dependencies', left) end
    if repair and left <= 0 then flow_release(P, id) end
  elseif what then
    found[#found + 1] = id
    found[#found + 1] = what
    if repair then
      -- One place stays: the one in flight, then the schedule, the dead letters, the backlog of its own kind.
      for k = state and 2 or 1, #places do redis.call('ZREM', P .. places[k], id) end
      if state and place and not (group and place == 'pending') then
        redis.call('HSET', row, 'state', STATE[place] or 'pending')
      elseif state then
        redis.call('ZREM', P .. 'pending', id)
        redis.call('HSET', row, 'state', 'pending')
        if group then
          lane_put(P, group, id, nil, false)
        else
          redis.call('ZADD', P .. 'pending', 0, id)
          wake(P)
        end
      end
      if lane then lane_visit(P, lane) end
    end
  end
  -- The list of waiting parents is ours, a peer does not keep it: it is put right and is no finding.
  if repair and redis.call('HGET', row, 'state') == 'awaiting_children' then
    redis.call('ZADD', P .. 'parents', 'NX', now, id)
  elseif repair then
    redis.call('ZREM', P .. 'parents', id)
  end
end
return found
