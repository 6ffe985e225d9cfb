--- tend_lanes: visit some lanes and put right what an audit would name about them
--- Keys: P
--- Args: beat (ms): there is one visit a beat, whoever asks; one in n beats with up to n times 10000 lanes in the ring
--- Returns: flat list of lane, what was wrong
--- Refuses: nothing
--- Include: now, lane_visit, follow, count_seats, lane_portion
local P, now, beat = KEYS[1], now_ms(), tonumber(ARGV[1])
local last, source, cursor, keys = unpack(redis.call('HMGET', P .. 'tended', 'at', 'source', 'cursor', 'keys'))
local beats = math.max(1, math.ceil(redis.call('LLEN', P .. 'ring') / 10000))
if last and now >= tonumber(last) and now < tonumber(last) + beat * beats then return {} end
local at = { tonumber(source) or 1, cursor or '0', keys or '0' }
if not SOURCES[at[1]] then at = { 1, '0', '0' } end
local found, seen, times, searches = {}, {}, {}, 0
local ring = redis.call('LRANGE', P .. 'ring', 0, -1)
for _, g in ipairs(ring) do times[g] = (times[g] or 0) + 1 end
local function visit(g, drift)
  -- A lane leaves the ring by a search of it: a hundred in one visit, the others when they are come by again.
  if seen[g] or times[g] and searches >= 100 then return end
  seen[g] = true
  follow_default(P, g)
  local what = lane_visit(P, g, times[g] or 0)
  if what and times[g] then searches = searches + 1 end
  if what or drift then
    found[#found + 1] = g
    found[#found + 1] = drift or what
  end
end
-- Seats are put right only where every job in flight says its lane: one without a row may hold a seat of any.
local wrong, known = count_seats(P, 1000, 10000)
for _, one in ipairs(known and wrong or {}) do
  local g, field, n = one[1], one[2], one[3]
  correct_seats(P, g, n)
  visit(g, 'gactive: counted ' .. (field or 'nothing') .. ' in flight, there are ' .. n)
end
for _, g in ipairs(lane_portion(P, ring, at)) do visit(g) end
redis.call('HSET', P .. 'tended', 'at', now, 'source', at[1], 'cursor', at[2], 'keys', at[3])
redis.call('PEXPIRE', P .. 'tended', 3600000)
return found
