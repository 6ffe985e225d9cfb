--- lock_clear: take the marks of a held job away, if they are this holder's
--- Keys: P
--- Args: id, token per job
--- Returns: 1 per job that carried this holder's mark, else 0
--- Refuses: nothing
local P, out = KEYS[1], {}
for i = 1, #ARGV, 2 do
  local row, token = P .. 'job:' .. ARGV[i], ARGV[i + 1]
  local mine = 0
  if redis.call('GET', row .. ':lock') == token then mine = redis.call('DEL', row .. ':lock') end
  if redis.call('HGET', row, 'lock') == token then mine = redis.call('HDEL', row, 'lock') end
  out[#out + 1] = mine
end
return out
