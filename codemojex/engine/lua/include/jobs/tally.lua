--- tally: how often a job failed before an attempt, a peer's attempts among them
--- Keys: none
--- Args: failures, counted: fields of the row, or nil; token: of the attempt
--- Returns: tally(failures, counted, token) -> text, or nil for none
--- Refuses: nothing
-- `counted` is the last attempt that our books know. A peer counts attempts and nothing else, so every attempt since then
-- is one that a peer ended or took back, and it counts here as it does there.
local function tally(failures, counted, token)
  local unseen = (tonumber(token) or 0) - 1 - (tonumber(counted) or 0)
  if not (unseen > 0) then return failures end
  return string.format('%.0f', (tonumber(failures) or 0) + unseen)
end
