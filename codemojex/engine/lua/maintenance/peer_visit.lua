--- peer_visit: look at a few members of a list that a peer does not keep, and put right what it left behind
--- Keys: P
--- Args: list, cursor ('0' begins), how many to look at (about), ms that records of a parent without a row live on
--- Returns: next cursor ('0' at the end), how many members were put right. In `parents` and `kin`: a parent that waits no
---   more leaves `parents`; the records of one whose row is gone get a life time. In `repeat`: what a peer cannot read moves
---   to `repeat_ours`.
--- Refuses: nothing
--- Include: repeat_home
local P, list, done = KEYS[1], ARGV[1], 0
local function parent(id)
  local row = P .. 'job:' .. id
  local state = redis.call('HGET', row, 'state')
  if state == 'awaiting_children' then return 0 end
  local left = redis.call('ZREM', P .. 'parents', id)
  if state then
    if left == 1 then redis.call('ZADD', P .. 'kin', 0, id) end
    return left
  end
  for _, record in ipairs({ ':dependencies', ':processed', ':failed', ':unsuccessful' }) do
    redis.call('PEXPIRE', row .. record, ARGV[4], 'NX')
  end
  return math.max(left, redis.call('ZREM', P .. 'kin', id))
end
local function repeated(name)
  if redis.call('EXISTS', P .. 'repeat:' .. name) == 0 or repeat_home(P, name) == 'repeat' then return 0 end
  repeat_put(P, name, repeat_slot(P, name))
  return 1
end
local page = redis.call('ZSCAN', P .. list, ARGV[2], 'COUNT', ARGV[3])
for i = 1, #page[2], 2 do
  done = done + (list == 'repeat' and repeated or parent)(page[2][i])
end
return { page[1], done }
