--- append_events: append one event, under one id, to several streams of a slot
--- Keys: whatever the command passes on; all of one slot
--- Args: none of its own
--- Returns: append_events(streams, node, cell, kind, game, data) -> 'EVT…', stream id.
---   streams: list of stream keys, for example the game's and the feed; the record is the same in each of them.
---   node, cell: see mint_event. kind: 'guess.scored'. game: GAM id. data: the event's JSON object as text.
---   The record has the fields id, kind, v ('1'), game, data, in this order.
--- Refuses: raises before any write as mint_event does
--- Include: mint_event
local function append_events(streams, node, cell, kind, game, data)
  local id, stream_id = mint_event(streams, node, cell)
  for _, key in ipairs(streams) do
    redis.call('XADD', key, stream_id, 'id', id, 'kind', kind, 'v', '1', 'game', game, 'data', data)
  end
  return id, stream_id
end
