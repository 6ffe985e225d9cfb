--- mint_probe: mint n ids for a stream, and append a record under each unless told not to
--- Keys: the stream, the cell (optional)
--- Args: node, n, append ('1' or '0')
--- Returns: list of {id, stream id}
--- Refuses: nothing
--- Include: mint_event
local out = {}
for i = 1, tonumber(ARGV[2]) do
  local id, stream_id = mint_event(KEYS[1], tonumber(ARGV[1]), KEYS[2])
  if ARGV[3] == '1' then redis.call('XADD', KEYS[1], stream_id, 'id', id) end
  out[i] = {id, stream_id}
end
return out
