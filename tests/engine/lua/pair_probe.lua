--- pair_probe: mint ids for two streams of a slot in turn
--- Keys: the streams, the cell
--- Args: node, n
--- Returns: list of stream ids
--- Refuses: nothing
--- Include: mint_event
local out = {}
for i = 1, tonumber(ARGV[2]) do
  local _, stream_id = mint_event(KEYS[i % 2 + 1], tonumber(ARGV[1]), KEYS[3])
  out[i] = stream_id
end
return out
