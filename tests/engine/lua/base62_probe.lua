--- base62_probe: the base 62 digits of each pair of limbs
--- Keys: none
--- Args: ms, tail, ms, tail, …
--- Returns: list of 11 digits each
--- Refuses: nothing
--- Include: mint_event
local out = {}
for i = 1, #ARGV, 2 do out[#out + 1] = event_base62(tonumber(ARGV[i]), tonumber(ARGV[i + 1])) end
return out
