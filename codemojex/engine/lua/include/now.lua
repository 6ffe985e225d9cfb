--- now: the server's clock
--- Keys: none
--- Args: none
--- Returns: now_ms() -> integer milliseconds since the Unix epoch
--- Refuses: nothing
local function now_ms()
  local t = redis.call('TIME')
  return t[1] * 1000 + math.floor(t[2] / 1000)
end
