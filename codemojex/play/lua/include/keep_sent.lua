--- keep_sent: note where a game's board stands, unless a newer message of the same chat is noted
--- Keys: sent
--- Args: chat id, message id, digest, now ms, keep ms
--- Returns: keep_sent(key, args) -> 1 when it was noted
--- Refuses: nothing
local function keep_sent(key, args)
  local kept = redis.call('HMGET', key, 'chat_id', 'message_id')
  if kept[1] == args[1] and tonumber(kept[2]) > tonumber(args[2]) then return 0 end
  redis.call('HSET', key, 'chat_id', args[1], 'message_id', args[2], 'digest', args[3], 'at_ms', args[4])
  redis.call('PEXPIRE', key, args[5])
  return 1
end
