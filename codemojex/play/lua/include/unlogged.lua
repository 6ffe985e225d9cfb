--- unlogged: read a text that `unlogged.hide` has put behind so many spaces that no slow log shows it
--- Keys: none
--- Args: none of its own
--- Returns: unlogged(text) -> what stands behind the spaces
--- Refuses: nothing
local function unlogged(text) return (string.gsub(text, '^ +', '')) end
