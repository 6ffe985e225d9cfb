--- audit_active: compare the lanes' seats with the jobs in flight, and set them right if asked
--- Keys: P
--- Args: repair (1 or 0)
--- Returns: flat list of lane, what is wrong
--- Refuses: EMQSTATE more than 20000 jobs in flight
--- Include: lane_visit, count_seats
local P, repair = KEYS[1], ARGV[1] == '1'
local wrong = count_seats(P, 20000, math.huge)
if not wrong then
  return redis.error_reply('EMQSTATE more than 20000 jobs in flight: too many for one look')
end
local found = {}
for _, one in ipairs(wrong) do
  local g, field, n = one[1], one[2], one[3]
  found[#found + 1] = g
  found[#found + 1] = 'gactive: counts ' .. (field or 'nothing') .. ' in flight, there are ' .. n
  if repair then
    correct_seats(P, g, n)
    lane_visit(P, g)
  end
end
return found
