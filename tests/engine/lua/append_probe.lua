--- append_probe: append n events to all streams
--- Keys: the streams
--- Args: node, n
--- Returns: list of {id, stream id}
--- Refuses: nothing
--- Include: append_events
local out = {}
for i = 1, tonumber(ARGV[2]) do
  local id, stream_id = append_events(KEYS, tonumber(ARGV[1]), nil, 'probe.done', 'GAM00000000000', '{"n":' .. i .. '}')
  out[i] = {id, stream_id}
end
return out
