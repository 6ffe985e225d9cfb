--- repeat_home: which of two sets a repeated job stands in, and which it belongs to
--- Keys: P
--- Args: name
--- Returns: repeat_home(P, name) -> 'repeat' when a peer fires the record as we do, else 'repeat_ours';
---   repeat_slot(P, name) -> its slot (text), or nil; repeat_put(P, name, slot): it stands there and nowhere else;
---   repeat_drop(P, name) -> from how many sets it was taken
--- Refuses: nothing
-- A peer knows every_ms and template. A record without every_ms it takes for a deleted one and removes its name; one
-- with a lane, an end or caps it would fire in its own way. These stand where it does not look.
local function repeat_home(P, name)
  local r = redis.call('HMGET', P .. 'repeat:' .. name, 'every_ms', 'cron', 'zone', 'catch_up', 'until', 'lane',
    'max_attempts', 'timeout')
  if not r[1] then return 'repeat_ours' end
  for i = 2, #r do if r[i] then return 'repeat_ours' end end
  return 'repeat'
end

local function repeat_slot(P, name)
  return redis.call('ZSCORE', P .. 'repeat_ours', name) or redis.call('ZSCORE', P .. 'repeat', name) or nil
end

local function repeat_put(P, name, slot)
  local home = repeat_home(P, name)
  redis.call('ZREM', P .. (home == 'repeat' and 'repeat_ours' or 'repeat'), name)
  redis.call('ZADD', P .. home, slot, name)
end

local function repeat_drop(P, name)
  return redis.call('ZREM', P .. 'repeat', name) + redis.call('ZREM', P .. 'repeat_ours', name)
end
