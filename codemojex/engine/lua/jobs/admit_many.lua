--- admit_many: take up to 500 jobs into the queue, each by itself
--- Keys: P
--- Args: specs (msgpack: a list of maps, see admit_one), then one payload per spec
--- Returns: a flat list of code, holder per job, in input order
--- Refuses: nothing
--- Include: now, admit_one
local P = KEYS[1]
local now = now_ms()
local specs = cmsgpack.unpack(ARGV[1])
local out = {}
for i, spec in ipairs(specs) do
  spec.payload = ARGV[i + 1]
  out[2 * i - 1], out[2 * i] = admit_one(P, now, spec)
end
return out
