--- audit_repeats: compare some repeated jobs with the two lists of them, and set them right if asked
--- Keys: P
--- Args: repair (1 or 0), then at most 500 pairs of name and the slot that one without a slot gets ('' for none)
--- Returns: flat list of name, what is wrong
--- Refuses: nothing
--- Include: repeat_home
local P, repair, found = KEYS[1], ARGV[1] == '1', {}
for i = 2, #ARGV, 2 do
  local name, slot = ARGV[i], ARGV[i + 1]
  local shared = redis.call('ZSCORE', P .. 'repeat', name)
  local own = redis.call('ZSCORE', P .. 'repeat_ours', name)
  local record, what = redis.call('EXISTS', P .. 'repeat:' .. name) == 1, nil
  if not record then -- a pump takes it off when its slot comes: no finding
    if repair then repeat_drop(P, name) end
  elseif not (shared or own) then
    what = 'repeat: has a record, but no slot, and never fires'
  elseif shared and repeat_home(P, name) ~= 'repeat' then
    what = 'repeat: stands where a peer would remove it, or fire it in its own way'
  elseif shared and own then
    what = 'repeat: stands in both lists'
  end
  if what then
    found[#found + 1] = name
    found[#found + 1] = what
  end
  if what and repair and (own or shared or slot ~= '') then
    repeat_put(P, name, own or shared or slot)
  end
end
return found
