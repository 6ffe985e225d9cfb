--- emit: append one event of the game to its stream and to the feed
--- Keys: see game_keys
--- Args: none of its own
--- Returns: emit(streams, kind, data) -> 'EVT…'; streams is TOLD for both, or {FEED} after the game's close
--- Refuses: nothing
--- Include: game_keys, append_events
local TOLD = {STREAM, FEED}
local function emit(streams, kind, data)
  local about = redis.call('HMGET', GAME, 'id', 'node')
  return (append_events(streams, tonumber(about[2]), P .. 'stream:cell', kind, about[1], data))
end
