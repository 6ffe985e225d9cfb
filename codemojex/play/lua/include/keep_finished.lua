--- keep_finished: a finished game stays until the archive has it
--- Keys: see game_keys
--- Args: none of its own
--- Returns: keep_finished(id): no key of the game expires any more, and it is counted; `archiver.py` ends both
--- Refuses: nothing
--- Include: game_keys, now
local function keep_finished(id)
  redis.call('ZADD', UNARCHIVED, 'NX', string.format('%.0f', now_ms()), id)
  for _, key in ipairs({STREAM, GAME, SECRET, TRIES, REQUESTS, OUTSTANDING, VOTES, BOARD, CODES}) do
    redis.call('PERSIST', key)
  end
end
