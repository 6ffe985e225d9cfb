--- mint_event: mint the branded id of a stream record under the server's order
--- Keys: whatever the command passes on; all of one slot
--- Args: none of its own
--- Returns: mint_event(streams, node, cell) -> 'EVT…', '<unix ms>-<node * 4096 + seq>'.
---   streams: a stream key, or a list of them: the id is greater than the last one that any of them ever took, also
---     when those records were trimmed or lie in the future, so XADD with it never fails.
---   node: 1008..1023, one number per slot: two slots that mint with the same node may mint the same id.
---   cell: optional key of the slot (P .. 'stream:cell'). With it no two ids of the slot and node are equal, whatever
---     streams they were minted for; without it ids are only unique inside each of their streams.
---   An id that was minted and not used is a gap, nothing more. In one script run the order of a stream is read once:
---   append to it only with ids from here.
--- Refuses: raises before any write when a stream is not a stream, or is ahead of what an id can say (the year 2093)
local EVENT_EPOCH = 1704067200000
local EVENT_DIGITS = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'
local EVENT_CELL_MS = 86400000 -- covers a server clock that steps back less than a day
local event_order = {} -- key -> {ms, tail} of the last id, for this run of the script
local event_now

-- Exact for all 63 bits although numbers are doubles: long division of the two limbs, ms * 2^22 + tail, by 62.
local function event_base62(ms, tail)
  local out = {}
  for i = 11, 1, -1 do
    local rest = (ms % 62) * 4194304 + tail
    local digit = rest % 62
    ms, tail = math.floor(ms / 62), math.floor(rest / 62)
    out[i] = string.sub(EVENT_DIGITS, digit + 1, digit + 1)
  end
  return table.concat(out)
end

local function event_split(id)
  local ms, tail = string.match(id, '^(%d+)%-(%d+)$')
  return {tonumber(ms), tonumber(tail)}
end

local function event_last(key)
  if not event_order[key] then
    event_order[key] = {0, -1}
    if redis.call('EXISTS', key) == 1 then
      local info = redis.call('XINFO', 'STREAM', key)
      for i = 1, #info, 2 do
        if info[i] == 'last-generated-id' then event_order[key] = event_split(info[i + 1]) end
      end
    end
  end
  return event_order[key]
end

local function mint_event(streams, node, cell)
  if type(streams) == 'string' then streams = {streams} end
  if not event_now then
    local t = redis.call('TIME')
    event_now = t[1] * 1000 + math.floor(t[2] / 1000)
  end
  local last = {0, -1}
  local function raise_to(seen)
    if seen[1] > last[1] or (seen[1] == last[1] and seen[2] > last[2]) then last = seen end
  end
  for _, key in ipairs(streams) do raise_to(event_last(key)) end
  if cell then
    if not event_order[cell] then
      local kept = redis.call('GET', cell)
      event_order[cell] = kept and event_split(kept) or {0, -1}
    end
    raise_to(event_order[cell])
  end
  local ms, tail = event_now, node * 4096
  if ms <= last[1] then
    ms = last[1]
    if last[2] >= tail then
      if last[2] < tail + 4095 then tail = last[2] + 1 else ms = ms + 1 end
    end
  end
  if ms < EVENT_EPOCH or ms - EVENT_EPOCH >= 2199023255552 then
    error('no id can be minted for ' .. streams[1] .. ': ' .. string.format('%.0f', ms) .. ' ms is outside 2024 to 2093')
  end
  for _, key in ipairs(streams) do event_order[key] = {ms, tail} end
  local stream_id = string.format('%.0f-%.0f', ms, tail)
  if cell then
    event_order[cell] = {ms, tail}
    redis.call('SET', cell, stream_id, 'PX', EVENT_CELL_MS + math.max(0, ms - event_now))
  end
  return 'EVT' .. event_base62(ms - EVENT_EPOCH, tail), stream_id
end
