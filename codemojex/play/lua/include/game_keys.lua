--- game_keys: names for the keys of one game, in the order of keys.of_game
--- Keys: P (the queue's prefix), feed, the game's stream, game, secret, tries, requests, outstanding, votes, board,
---   room, complete, codes, unarchived
--- Args: none of its own
--- Returns: the locals below
--- Refuses: nothing
local P, FEED, STREAM, GAME, SECRET, TRIES, REQUESTS, OUTSTANDING, VOTES, BOARD, ROOM, COMPLETE, CODES, UNARCHIVED =
  unpack(KEYS, 1, 14)
