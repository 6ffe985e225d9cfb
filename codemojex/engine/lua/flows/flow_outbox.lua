--- flow_outbox: the oldest entries of the outbox, and where they stand in all that was ever delivered from it
--- Keys: P
--- Args: limit
--- Returns: how many entries were taken off before these, a list of entries
--- Refuses: nothing
local P = KEYS[1]
return { redis.call('GET', P .. 'flow:sent') or '0', redis.call('LRANGE', P .. 'flow:outbox', 0, ARGV[1] - 1) }
