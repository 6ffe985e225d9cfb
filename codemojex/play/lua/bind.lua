--- bind: tie an outside name to an id, once; later calls keep it alive and answer the same id
--- Keys: mapping
--- Args: the id to bind when there is none ('' to look only), keep ms
--- Returns: the bound id, or nil when there is none and none was given
--- Refuses: nothing
local bound = redis.call('GET', KEYS[1])
if bound then
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
  return bound
end
if ARGV[1] == '' then return false end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return ARGV[1]
