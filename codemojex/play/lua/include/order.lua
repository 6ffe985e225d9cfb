--- order: admit a job on the game's queue
--- Keys: see game_keys
--- Args: none of its own
--- Returns: order(id, payload, lane, delay): at once, or after delay ms when given; an id that is taken changes nothing
--- Refuses: nothing
--- Include: game_keys, now, admit_one
local function order(id, payload, lane, delay)
  admit_one(P, now_ms(), {id = id, payload = payload, lane = lane, delay = delay})
end
