--- backoff: how long a failed job waits
--- Keys: none
--- Args: text: 'fixed:<ms>' or 'exp:<base ms>:<cap ms>:<1 with jitter>'; failures: 1 for the first; chance: a number in
---   [0, 1) from the caller, because the server's own random numbers are the same in every script
--- Returns: backoff_ms(text, failures, chance) -> ms
--- Refuses: nothing
local function backoff_ms(text, failures, chance)
  local kind, first, cap, jitter = string.match(text, '^(%a+):(%d+):?(%d*):?(%d*)$')
  if kind ~= 'exp' then return tonumber(first) end
  local ms = math.min(tonumber(cap), tonumber(first) * 2 ^ (failures - 1))
  return jitter == '1' and math.floor(chance * (ms + 1)) or ms
end
