--- stream_append: append records under the ids their producers gave them, each at most once
--- Keys: the stream
--- Args: per record: stream id, 'minted' or 'given', n, then n names and values ('id' first)
--- Returns: per record one of {'appended'}, {'repeated'} (it was there already, word for word), {'conflict'} (its
---   place is taken by other content), {'behind', last id, '1' when it certainly was never here else '0'},
---   {'untried'} (a minted record before it was not appended, and their order is kept), {'error', text}
--- Refuses: nothing; errors stand in the list
--- Include: stream_order
local stream, out, at, stopped = KEYS[1], {}, 1, false

local function same(entry, first, n)
  if #entry ~= n then return false end
  for i = 1, n do
    if entry[i] ~= ARGV[first + i - 1] then return false end
  end
  return true
end

-- Trimmed from the head or deleted from the middle: only then can a record have been here and be gone.
local function never_here(id)
  local info = stream_info(stream)
  local first = redis.call('XRANGE', stream, '-', '+', 'COUNT', 1)[1]
  if info['entries-added'] == info['length'] then return true end
  return first and id_less(first[1], id) and id_less(info['max-deleted-entry-id'], id)
end

while at <= #ARGV do
  local id, origin, n = ARGV[at], ARGV[at + 1], tonumber(ARGV[at + 2])
  if stopped and origin == 'minted' then
    out[#out + 1] = {'untried'}
  else
    local reply = redis.pcall('XADD', stream, id, unpack(ARGV, at + 3, at + 2 + n))
    if type(reply) ~= 'table' then
      out[#out + 1] = {'appended'}
    elseif not string.find(reply.err, 'equal or smaller', 1, true) then
      stopped = stopped or origin == 'minted'
      out[#out + 1] = {'error', reply.err}
    else
      local found = redis.call('XRANGE', stream, id, id)[1]
      if found then
        local mine = same(found[2], at + 3, n)
        stopped = stopped or (not mine and origin == 'minted')
        out[#out + 1] = {mine and 'repeated' or 'conflict'}
      else
        stopped = stopped or origin == 'minted'
        out[#out + 1] = {'behind', stream_info(stream)['last-generated-id'], never_here(id) and '1' or '0'}
      end
    end
  end
  at = at + 3 + n
end
return out
