--- flow_deliver: tell parents of this queue what became of children elsewhere
--- Keys: P
--- Args: five per child: kind ('done' or 'fail'), parent, child, policy ('' when done), result or error
--- Returns: one of 'new', 'known', 'gone', or an error text, per child; nothing is told after the first error
--- Refuses: nothing: an error is a value, so that what was told before it counts
--- Include: bury
local P, out = KEYS[1], {}
for i = 1, #ARGV, 5 do
  local kind, parent, child, policy, text = unpack(ARGV, i, i + 4)
  local ok, code
  if kind == 'done' then
    ok, code = pcall(flow_done_here, P, child, parent, text)
  else
    ok, code = pcall(flow_failed_here, P, child, parent, policy == 'id' and 'id' or 'fp', text)
  end
  out[#out + 1] = ok and code or 'ERR ' .. tostring(code)
  if not ok then break end
end
return out
