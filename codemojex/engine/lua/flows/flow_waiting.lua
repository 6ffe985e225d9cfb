--- flow_waiting: what parents that wait for children know of them
--- Keys: P
--- Args: at most 500 ids of jobs
--- Returns: now, then per job that waits: id, since when (ms; '' when nobody noted it), how many children it waits for,
---   a list of those it has heard of
--- Refuses: nothing
--- Include: now
local P, out = KEYS[1], { now_ms() }
for _, id in ipairs(ARGV) do
  local row = P .. 'job:' .. id
  local left = tonumber(redis.call('GET', row .. ':dependencies') or 0)
  if left > 0 and redis.call('HGET', row, 'state') == 'awaiting_children' then
    local heard = {}
    for _, record in ipairs({ ':processed', ':failed', ':unsuccessful' }) do
      for _, child in ipairs(redis.call('HKEYS', row .. record)) do heard[#heard + 1] = child end
    end
    for _, value in ipairs({ id, redis.call('ZSCORE', P .. 'parents', id) or '', left, heard }) do
      out[#out + 1] = value
    end
  end
end
return out
