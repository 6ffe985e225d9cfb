"""P: another engine of the protocol, which writes what its pages say (sections 3 to 5) and nothing more.

Each verb is one script of P's own, or the client's reads and then a script, as the protocol tells it; none shares a
line with ours. `Habits` are P's weak spots, each with a switch: one that is off is done as a careful engine does it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from codemojex.engine import keyspace
from codemojex.engine.connector import Connector
from codemojex.engine.ids import Minter

NODE = 68  # what an unconfigured P mints under
_NUL = b"\0"
_MINT = Minter(NODE)


@dataclass(frozen=True, slots=True)
class Habits:
    """What P does that its neighbours must survive. The number is the item of issue 6, section B."""

    trims_blindly: bool = True  # 1: reads n entries of the outbox, delivers, and cuts n later without looking
    forgets_strange_repeats: bool = True  # 2: a record without `every_ms` counts as deleted and is removed
    stall_leaves_ring: bool = True  # 3: a holder buried at its ceiling does not bring its lane back
    reprocesses_flat: bool = True  # 8: a lane's dead letter goes to the flat backlog, with its `group`
    delay_keeps_seat: bool = True  # no item: `delay` of a lane's job never gives its seat back; `audit` repairs it


class Found(NamedTuple):
    """A job that P claimed."""

    id: str
    payload: bytes
    token: str
    lane: str | None


_BOOKS = """
local P, t = KEYS[1], redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local function row(id) return P .. 'job:' .. id end
local function lane(g) return P .. 'g:' .. g .. ':pending' end
local function act_of(g) return tonumber(redis.call('HGET', P .. 'gactive', g)) or 0 end
local function enter(g, act)
  local limit = tonumber(redis.call('HGET', P .. 'glimit', g))
  if redis.call('ZCARD', lane(g)) == 0 or redis.call('SISMEMBER', P .. 'paused', g) == 1 then return end
  if (limit and act >= limit) or redis.call('LPOS', P .. 'ring', g) then return end
  redis.call('RPUSH', P .. 'ring', g)
  redis.call('LPUSH', P .. 'wake', '1')
  redis.call('LTRIM', P .. 'wake', 0, 63)
end
local function leave(g) redis.call('LREM', P .. 'ring', 0, g) end
local function release(g)
  local act = redis.call('HINCRBY', P .. 'gactive', g, -1)
  if act <= 0 then redis.call('HDEL', P .. 'gactive', g) end
  return act
end
local function put(id, g, act)
  redis.call('HSET', row(id), 'state', 'pending')
  if g then
    redis.call('ZADD', lane(g), 0, id)
    enter(g, act or act_of(g))
  else
    redis.call('ZADD', P .. 'pending', 0, id)
  end
end
local function take(id, lease, g)
  local att = redis.call('HINCRBY', row(id), 'attempts', 1)
  redis.call('HSET', row(id), 'state', 'active')
  redis.call('ZADD', P .. 'active', now + lease, id)
  return { id, redis.call('HGET', row(id), 'payload'), tostring(att), g or '' }
end
-- Out of flight, or out of where it waits since its lease was taken back.
local function end_attempt(id)
  local g = redis.call('HGET', row(id), 'group')
  local was_active = redis.call('ZREM', P .. 'active', id) == 1
  if was_active and g then
    enter(g, release(g))
  elseif g then
    redis.call('ZREM', lane(g), id)
    if redis.call('ZCARD', lane(g)) == 0 then leave(g) end
  elseif not was_active then
    redis.call('ZREM', P .. 'pending', id)
  end
  return was_active
end
local function bury(id, reason)
  redis.call('HSET', row(id), 'state', 'dead', 'last_error', reason)
  redis.call('ZADD', P .. 'dead', 0, id)
  redis.call('HINCRBY', P .. 'metrics:failed', 'count', 1)
end
local function count_down(parent)
  if redis.call('DECR', row(parent) .. ':dependencies') > 0 then return end
  redis.call('ZADD', P .. 'pending', 0, parent)
  redis.call('HSET', row(parent), 'state', 'pending')
end
local function parent_dies(parent, child, reason)
  redis.call('HSET', row(parent) .. ':failed', child, reason)
  redis.call('HSET', row(parent), 'state', 'dead')
  redis.call('ZADD', P .. 'dead', 0, parent)
  redis.call('ZREM', P .. 'pending', parent)
end
"""
_VERBS = {
    "enqueue": """
local id, payload, g, delay = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4])
if redis.call('EXISTS', row(id)) == 1 then return 0 end
redis.call('HSET', row(id), 'state', delay and 'scheduled' or 'pending', 'attempts', '0', 'payload', payload)
if g ~= '' then redis.call('HSET', row(id), 'group', g) end
if delay then redis.call('ZADD', P .. 'schedule', now + delay, id) else put(id, g ~= '' and g) end
return 1""",
    "claim": """
local id = redis.call('ZPOPMIN', P .. 'pending')[1]
return id and take(id, ARGV[1])""",
    "gclaim": """
local g = redis.call('LMOVE', P .. 'ring', P .. 'ring', 'LEFT', 'RIGHT')
if not g then return nil end
local id = redis.call('ZPOPMIN', lane(g))[1]
if not id then leave(g) return nil end
local found, act = take(id, ARGV[1], g), redis.call('HINCRBY', P .. 'gactive', g, 1)
local limit = tonumber(redis.call('HGET', P .. 'glimit', g))
if (limit and act >= limit) or redis.call('ZCARD', lane(g)) == 0 then leave(g) end
return found""",
    "complete": """
local id, token, parent, queue, result = unpack(ARGV)
local att = redis.call('HGET', row(id), 'attempts')
if not att then return 0 end
if att ~= token then return redis.error_reply('EMQSTALE complete token mismatch') end
local was_active = end_attempt(id)
if was_active and queue ~= '' then
  redis.call('RPUSH', P .. 'flow:outbox', table.concat({ queue, parent, id, result }, '\\0'))
elseif was_active and parent ~= '' then
  redis.call('HSET', row(parent) .. ':processed', id, result)
  count_down(parent)
end
redis.call('DEL', row(id))
redis.call('HINCRBY', P .. 'metrics:completed', 'count', 1)
return 1""",
    "retry": """
local id, token, delay, max, reason, parent, queue, policy = unpack(ARGV)
local att = redis.call('HGET', row(id), 'attempts')
if att ~= token then return redis.error_reply('EMQSTALE retry token mismatch') end
end_attempt(id)
redis.call('HSET', row(id), 'last_error', reason)
if tonumber(att) < tonumber(max) then
  redis.call('HSET', row(id), 'state', 'scheduled')
  redis.call('ZADD', P .. 'schedule', now + delay, id)
  return 'scheduled'
end
bury(id, reason)
if queue ~= '' then
  redis.call('RPUSH', P .. 'flow:outbox', table.concat({ '', 'fail', queue, parent, id, policy, reason }, '\\0'))
elseif parent ~= '' and policy == 'id' then
  redis.call('HSET', row(parent) .. ':unsuccessful', id, reason)
  count_down(parent)
elseif parent ~= '' then
  parent_dies(parent, id, reason)
end
return 'dead'""",
    "delay": """
local id, token, ms, keeps_seat = ARGV[1], ARGV[2], ARGV[3], ARGV[4] == '1'
if redis.call('HGET', row(id), 'attempts') ~= token then return redis.error_reply('EMQSTALE delay token mismatch') end
if keeps_seat then redis.call('ZREM', P .. 'active', id) else end_attempt(id) end
redis.call('HSET', row(id), 'state', 'scheduled')
redis.call('ZADD', P .. 'schedule', now + ms, id)
return 1""",
    "promote": """
local due = redis.call('ZRANGEBYSCORE', P .. 'schedule', '-inf', now, 'LIMIT', 0, 100)
for _, id in ipairs(due) do
  redis.call('ZREM', P .. 'schedule', id)
  put(id, redis.call('HGET', row(id), 'group'))
end
return #due""",
    "reap": """
local lapsed = redis.call('ZRANGEBYSCORE', P .. 'active', '-inf', now, 'LIMIT', 0, 100)
for _, id in ipairs(lapsed) do
  local g = redis.call('HGET', row(id), 'group')
  redis.call('ZREM', P .. 'active', id)
  put(id, g, g and release(g))
end
return #lapsed""",
    "stalled": """
local lapsed = redis.call('ZRANGEBYSCORE', P .. 'active', '-inf', now, 'LIMIT', 0, 100)
for _, id in ipairs(lapsed) do
  redis.call('ZREM', P .. 'active', id)
  local g = redis.call('HGET', row(id), 'group')
  local act = g and release(g)
  if redis.call('HINCRBY', row(id), 'stalled', 1) < tonumber(ARGV[1]) then
    put(id, g, act)
  else
    bury(id, 'stalled')
    if g and ARGV[2] == '0' then enter(g, act) end
  end
end
return #lapsed""",
    "reprocess": """
local id, flat = ARGV[1], ARGV[2] == '1'
if redis.call('ZREM', P .. 'dead', id) == 0 then return 0 end
redis.call('HDEL', row(id), 'last_error')
put(id, not flat and redis.call('HGET', row(id), 'group'))
return 1""",
    "pause": """
redis.call('SADD', P .. 'paused', ARGV[1])
leave(ARGV[1])""",
    "resume": """
redis.call('SREM', P .. 'paused', ARGV[1])
enter(ARGV[1], act_of(ARGV[1]))""",
    "limit": """
local g, n = ARGV[1], tonumber(ARGV[2])
redis.call('HSET', P .. 'glimit', g, n)
if act_of(g) >= n then leave(g) else enter(g, act_of(g)) end""",
    "hold": """
redis.call('HSET', row(ARGV[1]), 'state', 'awaiting_children', 'attempts', '0', 'payload', ARGV[2])
redis.call('SET', row(ARGV[1]) .. ':dependencies', ARGV[3])""",
    "child": """
local id, payload, parent, queue, policy = unpack(ARGV)
redis.call('HSET', row(id), 'state', 'pending', 'attempts', '0', 'payload', payload)
redis.call('HSET', row(id), 'parent', parent, 'parent_policy', policy)
if queue ~= '' then redis.call('HSET', row(id), 'parent_queue', queue) end
redis.call('ZADD', P .. 'pending', 0, id)""",
    "tell_done": """
local parent, child, result = unpack(ARGV)
if redis.call('HSETNX', row(parent) .. ':processed', child, result) == 1 then count_down(parent) end""",
    "tell_failed": """
local parent, child, policy, reason = unpack(ARGV)
if redis.call('HEXISTS', row(parent) .. ':failed', child) == 1 then return end
if policy ~= 'id' then
  parent_dies(parent, child, reason)
elseif redis.call('HSETNX', row(parent) .. ':unsuccessful', child, reason) == 1 then
  count_down(parent)
end""",
    "fire": """
local name, id = ARGV[1], ARGV[2]
local every, template = unpack(redis.call('HMGET', P .. 'repeat:' .. name, 'every_ms', 'template'))
if not every then
  if ARGV[3] == '1' then redis.call('ZREM', P .. 'repeat', name) end
  return 0
end
redis.call('HSET', row(id), 'state', 'pending', 'attempts', '0', 'payload', template)
redis.call('ZADD', P .. 'pending', 0, id)
redis.call('ZADD', P .. 'repeat', now + every, name)
return 1""",
}


class Peer:
    """P at work on one queue. What the protocol answers with an error is raised as the connector raises it."""

    def __init__(self, bus: Connector, queue: str, habits: Habits | None = None) -> None:
        self.queue = queue
        self.habits = habits or Habits()
        self.mint = _MINT
        self._bus = bus
        self._prefix = keyspace.of(queue).prefix
        self._read = 0  # entries of the outbox that were delivered and are not cut yet

    async def _run(self, verb: str, *args: Any, prefix: str = "") -> Any:
        text = [arg if isinstance(arg, bytes) else str(arg) for arg in args]
        return await self._bus.execute("EVAL", _BOOKS + _VERBS[verb], 1, prefix or self._prefix, *text)

    async def _raw(self, command: str, key: str, *rest: Any) -> Any:
        return await self._bus.execute(command, self._prefix + key, *rest)

    async def _link(self, job_id: str) -> tuple[str, str, str]:
        found = await self._raw("HMGET", f"job:{job_id}", "parent", "parent_queue", "parent_policy")
        parent, queue, policy = [(part or b"").decode() for part in found]
        return parent, queue, "id" if policy == "id" else "fp"

    # Coming in.

    async def enqueue(self, payload: bytes, lane: str | None = None, delay_ms: int | None = None) -> str:
        """A new job; only a flat one can be delayed, and none wakes a worker unless its lane enters the ring."""
        job_id = self.mint.mint("JOB")
        assert await self._run("enqueue", job_id, payload, lane or "", "" if delay_ms is None else delay_ms) == 1
        return job_id

    async def add_flow(self, children: Mapping[bytes, Peer], policy: str = "fp") -> tuple[str, list[str]]:
        """A parent here and its children, each on the queue of its peer: first the parent, then one by one."""
        parent, held, ids = b"parent", self.mint.mint("JOB"), [self.mint.mint("JOB") for _ in children]
        await self._run("hold", held, parent, len(children))
        for child, (payload, peer) in zip(ids, children.items(), strict=True):
            away = self.queue if peer.queue != self.queue else ""
            await self._run("child", child, payload, held, away, policy, prefix=keyspace.of(peer.queue).prefix)
        return held, ids

    async def repeat(self, name: str, every_ms: int, template: bytes) -> None:
        """A job every so often; a name that is there stays as it is."""
        if not await self._raw("EXISTS", f"repeat:{name}"):
            await self._raw("HSET", f"repeat:{name}", "every_ms", every_ms, "template", template)
            await self._raw("ZADD", "repeat", 1, name)

    # Claims.

    async def claim_flat(self, lease_ms: int) -> Found | None:
        """The head of the flat backlog, whatever row it has; it takes no seat."""
        return await self._claim("claim", lease_ms)

    async def claim_lane(self, lease_ms: int) -> Found | None:
        """One step of the rota."""
        return await self._claim("gclaim", lease_ms)

    async def _claim(self, verb: str, lease_ms: int) -> Found | None:
        if await self._raw("HGET", "meta", "paused") is not None:
            return None
        found = await self._run(verb, lease_ms)
        return Found(found[0].decode(), found[1], found[2].decode(), found[3].decode() or None) if found else None

    # Settlements.

    async def complete(self, job_id: str, token: str, result: bytes | None = None) -> bool:
        """Whether the job was there."""
        parent, queue, _ = await self._link(job_id)
        return await self._run("complete", job_id, token, parent, queue, result or job_id) == 1

    async def retry(self, job_id: str, token: str, delay_ms: int, max_attempts: int, error: str) -> str:
        """`scheduled` or `dead`; attempts are the only counter. A parent's own death climbs by the client's hand."""
        parent, queue, policy = await self._link(job_id)
        after = await self._run("retry", job_id, token, delay_ms, max_attempts, error, parent, queue, policy)
        if after == b"dead" and parent and not queue and policy == "fp":
            await self._climb(parent, error)
        return after.decode()

    async def _climb(self, died: str, error: str) -> None:
        parent, queue, policy = await self._link(died)
        if parent:
            entry = [b"", b"fail", (queue or self.queue).encode(), parent.encode(), died.encode(), policy.encode()]
            await self._raw("RPUSH", "flow:outbox", _NUL.join([*entry, error.encode()]))

    async def delay(self, job_id: str, token: str, ms: int) -> None:
        """Put off without a failure; the attempt stays counted."""
        await self._run("delay", job_id, token, ms, int(self.habits.delay_keeps_seat))

    # Its pump.

    async def promote(self) -> int:
        """What is due comes back."""
        return await self._run("promote")

    async def reap(self) -> int:
        """What lapsed comes back, and nothing is counted."""
        return await self._run("reap")

    async def stalled(self, most: int) -> int:
        """What lapsed comes back and is counted, or dies; its parent does not hear of it."""
        return await self._run("stalled", most, int(self.habits.stall_leaves_ring))

    async def fire(self) -> list[str]:
        """Due repeats, each as a flat job; the ids. The record's removal leaves nothing to fire."""
        ids: list[str] = []
        for name in await self._raw("ZRANGEBYSCORE", "repeat", "-inf", await self._now()):
            job_id = self.mint.mint("JOB")
            if await self._run("fire", name, job_id, int(self.habits.forgets_strange_repeats)):
                ids.append(job_id)
        return ids

    async def deliver(self) -> None:
        """Tell parents elsewhere. With its habit the entries are cut at the next call only: others pop in between."""
        if self._read:
            await self._raw("LTRIM", "flow:outbox", self._read, -1)
            self._read = 0
            return
        entries: list[bytes] = await self._raw("LRANGE", "flow:outbox", 0, 99)
        for entry in entries:
            await self._tell(entry)
        if self.habits.trims_blindly:
            self._read = len(entries)
        elif entries:
            await self._raw("LTRIM", "flow:outbox", len(entries), -1)

    async def _tell(self, entry: bytes) -> None:
        if not entry.startswith(_NUL):
            queue, parent, child, result = entry.split(_NUL, 3)
            await self._run("tell_done", parent, child, result, prefix=keyspace.of(queue.decode()).prefix)
            return
        _, _, queue, parent, child, policy, error = entry.split(_NUL, 6)
        there = Peer(self._bus, queue.decode(), self.habits)
        before = await there._raw("HGET", f"job:{parent.decode()}", "state")
        await self._run("tell_failed", parent, child, policy, error, prefix=there._prefix)
        if before != b"dead" and await there._raw("HGET", f"job:{parent.decode()}", "state") == b"dead":
            await there._climb(parent.decode(), error.decode())

    async def _now(self) -> int:
        seconds, micros = await self._bus.execute("TIME")
        return int(seconds) * 1000 + int(micros) // 1000

    # Operators.

    async def reprocess(self, job_id: str) -> bool:
        """A dead letter waits again; attempts and everything that P does not know stay in its row."""
        return await self._run("reprocess", job_id, int(self.habits.reprocesses_flat)) == 1

    async def pause(self, lane: str) -> None:
        """The lane leaves the ring."""
        await self._run("pause", lane)

    async def resume(self, lane: str) -> None:
        """The lane comes back."""
        await self._run("resume", lane)

    async def limit(self, lane: str, n: int) -> None:
        """At most `n` of the lane in flight."""
        await self._run("limit", lane, n)
