--- lane_portion: the lanes of a queue, a portion at a time, wherever they stand
--- Keys: P
--- Args: ring: all of it; at: {source, cursor, cursor among the keys}, which moves on
--- Returns: lane_portion(P, ring, at) -> lanes, some perhaps twice; some hundreds at the most
--- Refuses: nothing
-- Lanes with a setting or with jobs in flight stand in a hash or set of their own. A lane that stands nowhere but has
-- work is found by its backlog, among all keys of the server.
local SOURCES = { 'glimit', 'gactive', 'gdefault', 'gweight', 'grate', 'paused', 'resting', 'ring' }
local VERB = { paused = 'SSCAN', resting = 'ZSCAN' }

local function lane_page(P, ring, source, cursor)
  local names = {}
  if source == 'ring' then
    local last = math.min(#ring, cursor + 100)
    for i = cursor + 1, last do names[#names + 1] = ring[i] end
    return names, last < #ring and string.format('%.0f', last) or '0'
  end
  local reply = redis.call(VERB[source] or 'HSCAN', P .. source, cursor, 'COUNT', 100)
  for i = 1, #reply[2], source == 'paused' and 1 or 2 do names[#names + 1] = reply[2][i] end
  return names, reply[1]
end

local function lane_portion(P, ring, at)
  local head, tail = P .. 'g:', ':pending'
  local reply = redis.call('SCAN', at[3], 'MATCH', head .. '*' .. tail, 'COUNT', 250)
  local lanes, others = {}, 0
  for i, key in ipairs(reply[2]) do lanes[i] = string.sub(key, #head + 1, -#tail - 1) end
  at[3] = reply[1]
  for _ = 1, #SOURCES do
    local names, cursor = lane_page(P, ring, SOURCES[at[1]], at[2])
    for _, g in ipairs(names) do lanes[#lanes + 1] = g end
    at[2], others = cursor, others + #names
    if cursor ~= '0' then break end
    at[1] = at[1] % #SOURCES + 1
    if others >= 100 then break end
  end
  return lanes
end
