--- stream_order: compare stream ids, and read what the server knows of a stream
--- Keys: whatever the command passes on
--- Args: none of its own
--- Returns: id_less(a, b) -> boolean; stream_info(key) -> table by field name (the stream must exist)
--- Refuses: nothing
local function id_parts(id)
  local ms, tail = string.match(id, '^(%d+)%-(%d+)$')
  return tonumber(ms), tonumber(tail)
end

local function id_less(a, b)
  local ams, atail = id_parts(a)
  local bms, btail = id_parts(b)
  if ams ~= bms then return ams < bms end
  return atail < btail
end

local function stream_info(key)
  local info, flat = {}, redis.call('XINFO', 'STREAM', key)
  for i = 1, #flat, 2 do info[flat[i]] = flat[i + 1] end
  return info
end
