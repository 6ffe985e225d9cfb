--- lane_move: move a waiting job to another lane
--- Keys: P
--- Args: id, lane
--- Returns: 'moved', 'noop' (it is there), 'not_found' (no such job, or it has no lane), 'not_pending'
--- Refuses: nothing
--- Include: lane_visit
local P, id, to = KEYS[1], ARGV[1], ARGV[2]
local row = P .. 'job:' .. id
local from = redis.call('HGET', row, 'group')
if not from then return 'not_found' end
if from == to then return 'noop' end
local waits = redis.call('ZREM', P .. 'g:' .. from .. ':pending', id) + redis.call('ZREM', P .. 'pending', id)
if waits == 0 then return 'not_pending' end -- a peer's reprocess leaves a lane's job in the flat backlog
redis.call('HSET', row, 'group', to)
lane_put(P, to, id, nil, false)
lane_visit(P, from)
lane_freed(P, from, lane_active(P, from), false)
return 'moved'
