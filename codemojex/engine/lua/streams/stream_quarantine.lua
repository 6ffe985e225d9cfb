--- stream_quarantine: move a poison entry out of a group's way, with its error
--- Keys: the stream, its quarantine stream
--- Args: group, stream id, error, deliveries, how many quarantined records to keep, their life time in ms, node
--- Returns: the id of the quarantine's record, or '' when the entry was trimmed; acknowledged either way
--- Refuses: nothing
--- Include: mint_event
local stream, quarantine = KEYS[1], KEYS[2]
local group, stream_id = ARGV[1], ARGV[2]
local entry = redis.call('XRANGE', stream, stream_id, stream_id)[1]
local id = ''
if entry then
  local fields = {'stream_id', stream_id, 'group', group, 'error', ARGV[3], 'deliveries', ARGV[4]}
  for i = 1, #entry[2], 2 do
    fields[#fields + 1] = 'field:' .. entry[2][i]
    fields[#fields + 1] = entry[2][i + 1]
  end
  local quarantine_id
  id, quarantine_id = mint_event(quarantine, tonumber(ARGV[7]))
  redis.call('XADD', quarantine, 'MAXLEN', '=', ARGV[5], quarantine_id, 'id', id, unpack(fields))
  redis.call('PEXPIRE', quarantine, ARGV[6])
end
redis.call('XACK', stream, group, stream_id)
return id
