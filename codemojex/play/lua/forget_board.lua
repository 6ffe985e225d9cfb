--- forget_board: forget where a game's board stands, if it is this message
--- Keys: sent
--- Args: message id
--- Returns: 1 when it was forgotten
--- Refuses: nothing
if redis.call('HGET', KEYS[1], 'message_id') ~= ARGV[1] then return 0 end
return redis.call('DEL', KEYS[1])
