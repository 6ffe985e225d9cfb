"""Another engine that follows the protocol shares the queue: whoever claims or settles, the books stay right."""

from __future__ import annotations

import random
from typing import Any

import pytest

from codemojex.engine.jobs.outcome import Complete, Retry
from codemojex.engine.lanes import lanes
from codemojex.engine.maintenance import recovery
from tests.engine.bench import LEASE, Bench, lane

# A plain engine as the protocol's sections 3.3 to 3.7 describe it, with its scans of the ring.
_RING = """
local P, t = KEYS[1], redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local function row(id) return P .. 'job:' .. id end
local function lane(g) return P .. 'g:' .. g .. ':pending' end
local function enter(g, act)
  local limit = redis.call('HGET', P .. 'glimit', g)
  if redis.call('SISMEMBER', P .. 'paused', g) == 0 and (not limit or act < tonumber(limit))
    and not redis.call('LPOS', P .. 'ring', g) then
    redis.call('RPUSH', P .. 'ring', g)
    redis.call('LPUSH', P .. 'wake', '1')
    redis.call('LTRIM', P .. 'wake', 0, 63)
  end
end
local function leave(g) redis.call('LREM', P .. 'ring', 0, g) end
local function release(g)
  local act = redis.call('HINCRBY', P .. 'gactive', g, -1)
  if act <= 0 then redis.call('HDEL', P .. 'gactive', g) end
  return act
end
"""
ENQUEUE = """
local id, payload, g = ARGV[1], ARGV[2], ARGV[3]
if redis.call('EXISTS', row(id)) == 1 then return 0 end
redis.call('HSET', row(id), 'state', 'pending', 'attempts', '0', 'payload', payload, 'group', g)
redis.call('ZADD', lane(g), 0, id)
enter(g, tonumber(redis.call('HGET', P .. 'gactive', g)) or 0)
return 1
"""
CLAIM = """
local g = redis.call('LMOVE', P .. 'ring', P .. 'ring', 'LEFT', 'RIGHT')
if not g then return nil end
local id = redis.call('ZPOPMIN', lane(g))[1]
if not id then leave(g) return nil end
local att = redis.call('HINCRBY', row(id), 'attempts', 1)
redis.call('HSET', row(id), 'state', 'active')
redis.call('ZADD', P .. 'active', now + ARGV[1], id)
local act = redis.call('HINCRBY', P .. 'gactive', g, 1)
local limit = redis.call('HGET', P .. 'glimit', g)
if (limit and act >= tonumber(limit)) or redis.call('ZCARD', lane(g)) == 0 then leave(g) end
return { id, tostring(att), g }
"""
COMPLETE = """
local id, token = ARGV[1], ARGV[2]
local att = redis.call('HGET', row(id), 'attempts')
if not att then return 0 end
if att ~= token then return redis.error_reply('EMQSTALE complete token mismatch') end
local g = redis.call('HGET', row(id), 'group')
if redis.call('ZREM', P .. 'active', id) == 1 then
  local act = release(g)
  if redis.call('ZCARD', lane(g)) > 0 then enter(g, act) end
else
  redis.call('ZREM', lane(g), id)
  if redis.call('ZCARD', lane(g)) == 0 then leave(g) end
end
redis.call('DEL', row(id))
redis.call('HINCRBY', P .. 'metrics:completed', 'count', 1)
return 1
"""
REAP = """
for _, id in ipairs(redis.call('ZRANGEBYSCORE', P .. 'active', '-inf', now, 'LIMIT', 0, 100)) do
  redis.call('ZREM', P .. 'active', id)
  local g = redis.call('HGET', row(id), 'group')
  local act = release(g)
  redis.call('ZADD', lane(g), 0, id)
  redis.call('HSET', row(id), 'state', 'pending')
  enter(g, act)
end
return 1
"""


class Peer:
    def __init__(self, bench: Bench) -> None:
        self.bench = bench

    async def run(self, command: str, *args: Any) -> Any:
        return await self.bench.bus.execute("EVAL", _RING + command, 1, self.bench.space.prefix, *args)


async def test_a_peer_works_what_we_admit_and_we_work_what_it_admits(bench: Bench) -> None:
    peer = Peer(bench)
    (ours,) = await bench.fill([lane(1)])
    theirs = bench.id()
    await peer.run(ENQUEUE, theirs, "payload", lane(2))
    await bench.sound()
    job_id, token, name = await peer.run(CLAIM, LEASE)
    assert (job_id.decode(), token, name.decode()) == (ours, b"1", lane(1))
    (job,) = await bench.take()
    assert (job.id, job.payload, job.token, job.lane) == (theirs, b"payload", "1", lane(2))
    await bench.sound()
    assert await peer.run(COMPLETE, theirs, job.token) == 1
    assert (await bench.row(ours))["state"] == "active"
    assert type(await bench.settle(type(job)(ours, b"", "1", None, 0, 0, "", 0))).__name__ == "Settled"
    assert set(await bench.keys()) == {"metrics:completed"}


@pytest.mark.parametrize("seed", range(4))
async def test_two_engines_take_turns_and_the_books_stay_right(bench: Bench, seed: int) -> None:
    chance, peer = random.Random(seed), Peer(bench)
    names = [lane(i) for i in range(3)]
    ours: list[Any] = []
    theirs: list[tuple[str, str]] = []
    for _ in range(120):
        name = chance.choice(names)
        match chance.randrange(9):
            case 0:
                await bench.fill([name] * chance.randint(1, 3))
            case 1:
                await peer.run(ENQUEUE, bench.id(), "x", name)
            case 2:
                ours += (await bench.claim(chance.randint(1, 3))).jobs
            case 3:
                if got := await peer.run(CLAIM, LEASE):
                    theirs.append((got[0].decode(), got[1].decode()))
            case 4 if ours:
                await bench.settle(ours.pop(), chance.choice([Complete(), Retry("no", 60_000)]))
            case 5 if theirs:
                await peer.run(COMPLETE, *theirs.pop())
            case 6:
                await lanes.limit(bench.bus, bench.queue, name, chance.choice([None, 1, 2]))
            case 7:
                verb = chance.choice([lanes.pause, lanes.resume])
                await verb(bench.bus, bench.queue, name)
            case 8 if ours:
                await bench.lapse(ours.pop())
                await (recovery.recover(bench.bus, bench.queue) if chance.random() < 0.5 else peer.run(REAP))
        await bench.sound()
