--- erase: remove a job with everything that hangs on its id
--- Keys: P
--- Args: id; the id must stand in no set any more. all: the whole queue goes, so a parent in it that waits goes too
--- Returns: erase(P, id, all): a parent hears that the child was removed, once the lanes are in order
--- Refuses: nothing
--- Include: dedup, bury
local function erase(P, id, all)
  local row = P .. 'job:' .. id
  local key, parent, state = unpack(redis.call('HMGET', row, 'dedup', 'parent', 'state'))
  local link = parent and flow_link(P, id, parent)
  if key then dedup_free(P, key, id) end
  redis.call('DEL', row, row .. ':logs', row .. ':lock', row .. ':dependencies', row .. ':processed', row .. ':failed',
    row .. ':unsuccessful')
  redis.call('ZREM', P .. 'kin', id)
  if not link or state == 'dead' then return end -- a death was told when it happened
  if not all or link.queue then
    flow_failed(P, id, link, 'removed')
  elseif redis.call('HGET', P .. 'job:' .. parent, 'state') == 'awaiting_children' then
    redis.call('ZREM', P .. 'parents', parent)
    erase(P, parent, true)
  end
end
