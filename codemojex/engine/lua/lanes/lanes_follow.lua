--- lanes_follow: some lanes take up a setting of all lanes that was changed
--- Keys: P
--- Args: what ('pace': lanes that rest; 'ceiling': lanes with a ceiling by default), cursor ('0' to begin)
--- Returns: the cursor to go on with, '0' when all lanes that were there have been visited
--- Refuses: nothing
--- Include: now, lane_visit, follow
local P, now = KEYS[1], now_ms()
local m = read_meta(P)
local pace = ARGV[1] == 'pace'
local reply = redis.call(pace and 'ZSCAN' or 'HSCAN', P .. (pace and 'resting' or 'gdefault'), ARGV[2], 'COUNT', 100)
for i = 1, #reply[2], 2 do
  local g = reply[2][i]
  if pace then
    follow_pace(P, now, m, g)
    if not redis.call('ZSCORE', P .. 'resting', g) then lane_visit(P, g) end
  elseif follow_default(P, g) then
    lane_visit(P, g)
  end
end
return reply[1]
