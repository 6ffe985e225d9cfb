--- board_sent: see keep_sent
--- Keys: sent
--- Args: chat id, message id, digest, now ms, keep ms
--- Returns: 1, or 0 when a newer message is noted
--- Refuses: nothing
--- Include: keep_sent
return keep_sent(KEYS[1], ARGV)
