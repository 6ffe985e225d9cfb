"""A lane that a peer, a lost key or a hand left wrong comes right by itself: the pump's visits see every lane.

The peer here does with bare commands what the protocol lets it do: it knows no rests, buries a holder without looking
at its lane's place, and leaves no token for flat work.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from codemojex.engine.inspection.audit import audit
from codemojex.engine.jobs.jobs import Job
from codemojex.engine.jobs.outcome import Park
from codemojex.engine.lanes import lanes, limits
from codemojex.engine.maintenance import promotion
from codemojex.engine.maintenance.pump import Pump
from codemojex.engine.worker.worker import Worker, WorkerOptions
from tests.engine.bench import LEASE, Bench, lane, running
from tests.engine.lanes.test_settings_felt import parked
from tests.engine.protocol.test_peer import CLAIM, COMPLETE, ENQUEUE, Peer
from tests.support.waiting import until

HOUR = 3_600_000
ONE = lane(1)
STALL = """
for _, id in ipairs(redis.call('ZRANGEBYSCORE', P .. 'active', '-inf', now, 'LIMIT', 0, 100)) do
  redis.call('ZREM', P .. 'active', id)
  local g = redis.call('HGET', row(id), 'group')
  if g then release(g) end
  redis.call('HSET', row(id), 'state', 'dead', 'stalled', 1, 'last_error', 'stalled')
  redis.call('ZADD', P .. 'dead', 0, id)
end
return 1
"""
FLAT = """
redis.call('HSET', row(ARGV[1]), 'state', 'pending', 'attempts', '0', 'payload', 'x')
redis.call('ZADD', P .. 'pending', 0, ARGV[1])
return 1
"""


async def nothing(job: Job) -> None:
    pass


async def tend(bench: Bench) -> dict[str, str]:
    """A visit at once, whatever the beat says."""
    return dict(await lanes.tend(bench.bus, bench.queue, beat_ms=1))


async def healed(bench: Bench, visits: int = 50) -> dict[str, str]:
    """What visits put right until the audit is content."""
    found: dict[str, str] = {}
    for _ in range(visits):
        await bench.raw("HDEL", "tended", "at")
        found |= await tend(bench)
        if not await audit(bench.bus, bench.queue):
            return found
    raise AssertionError(f"after {visits} visits: {await audit(bench.bus, bench.queue)}")


async def test_a_lane_whose_holder_a_peer_buried_is_served_again(bench: Bench) -> None:
    await lanes.limit(bench.bus, bench.queue, ONE, 1)
    await bench.fill([ONE] * 22)
    peer = Peer(bench)
    job_id, _, _ = await peer.run(CLAIM, LEASE)
    await bench.raw("ZADD", "active", 1, job_id)
    await peer.run(STALL)
    assert (await lanes.depth(bench.bus, bench.queue, ONE), await bench.ring()) == (21, [])
    assert [v.what[:4] for v in await audit(bench.bus, bench.queue)] == ["ring"]
    worker = Worker(bench.bus, bench.queue, nothing, options=WorkerOptions(beat_ms=HOUR))
    async with running(worker):

        async def done() -> bool:
            return await lanes.depth(bench.bus, bench.queue, ONE) == 0

        await until(done)
    await bench.sound()


async def outside_the_ring(b: Bench) -> None:
    await b.raw("LREM", "ring", 0, ONE)


async def the_whole_ring_lost(b: Bench) -> None:
    await b.raw("DEL", "ring")


async def twice(b: Bench) -> None:
    await b.raw("RPUSH", "ring", ONE)


async def paused_in_the_ring(b: Bench) -> None:
    await b.raw("SADD", "paused", ONE)


async def full_in_the_ring(b: Bench) -> None:
    await b.raw("HSET", "glimit", ONE, 1)


async def resting_in_the_ring(b: Bench) -> None:
    await b.raw("ZADD", "resting", 4_000_000_000_000, ONE)


async def empty_in_the_ring(b: Bench) -> None:
    await b.raw("LPUSH", "ring", lane(9))


async def a_seat_too_many(b: Bench) -> None:
    await b.raw("HSET", "gactive", lane(2), 5, lane(8), 1)


async def a_seat_too_few(b: Bench) -> None:
    await b.raw("HDEL", "gactive", ONE)


async def a_lane_held_by_seats_of_nobody(b: Bench) -> None:
    await b.raw("HSET", "glimit", lane(2), 2)
    await b.raw("HSET", "gactive", lane(2), 2)
    await b.raw("LREM", "ring", 0, lane(2))


@pytest.mark.parametrize(
    "damage",
    [
        outside_the_ring,
        the_whole_ring_lost,
        twice,
        paused_in_the_ring,
        full_in_the_ring,
        resting_in_the_ring,
        empty_in_the_ring,
        a_seat_too_many,
        a_seat_too_few,
        a_lane_held_by_seats_of_nobody,
    ],
    ids=lambda damage: damage.__name__,
)
async def test_what_an_audit_names_about_lanes_heals_by_itself(
    bench: Bench, damage: Callable[[Bench], Awaitable[None]]
) -> None:
    await bench.fill([ONE] * 3 + [lane(2)] * 3)
    await bench.take(1)
    await bench.sound()
    await damage(bench)
    assert await audit(bench.bus, bench.queue)
    found = await healed(bench)
    assert found
    assert all(what.startswith(("ring: ", "gactive: ")) for what in found.values())


async def test_every_lane_is_visited_within_a_number_of_beats(bench: Bench) -> None:
    """Three thousand lanes that lost their ring and have no setting: each visit looks at 250 keys of the server."""
    names = [lane(i) for i in range(3000)]
    for start in range(0, 3000, 500):
        await bench.fill(names[start : start + 500])
    await bench.raw("DEL", "ring")
    visits = await bench.bus.execute("DBSIZE") // 250 + 20
    found = [len(await tend_now(bench)) for _ in range(visits)]
    assert sum(found) == 3000
    assert max(found) <= 800
    assert sorted(await bench.ring()) == sorted(names)
    await bench.sound()


async def tend_now(bench: Bench) -> dict[str, str]:
    await bench.raw("HDEL", "tended", "at")
    return await tend(bench)


async def test_a_visit_that_was_a_moment_ago_is_not_repeated_whoever_asks(bench: Bench) -> None:
    await bench.fill([ONE])
    await lanes.weight(bench.bus, bench.queue, ONE, 2)
    assert await lanes.tend(bench.bus, bench.queue, beat_ms=HOUR) == []
    await bench.raw("DEL", "ring")
    assert await lanes.tend(bench.bus, bench.queue, beat_ms=HOUR) == []
    await bench.raw("HSET", "tended", "at", 1)
    assert await lanes.tend(bench.bus, bench.queue, beat_ms=HOUR) != []
    await bench.raw("HSET", "tended", "at", 4_000_000_000_000, "source", 99, "cursor", 7)  # of another make
    await bench.raw("DEL", "ring")
    assert await lanes.tend(bench.bus, bench.queue, beat_ms=HOUR) != []
    assert 0 < await bench.raw("PTTL", "tended") <= HOUR


async def test_seats_that_nobody_can_count_stay(bench: Bench) -> None:
    """A job in flight without a row may hold a seat of any lane."""
    await bench.fill([ONE])
    (job,) = await bench.take()
    await bench.raw("DEL", f"job:{job.id}")
    assert await tend_now(bench) == {}
    assert await bench.raw("HGETALL", "gactive") == {ONE.encode(): b"1"}


async def test_the_pump_says_which_lanes_it_put_right(bench: Bench) -> None:
    heard: list[dict[str, object]] = []
    await bench.fill([ONE])
    await bench.raw("DEL", "ring")

    def observe(name: str, data: dict[str, object]) -> None:
        if name == "pump.lane":
            heard.append(data)

    pump = Pump(bench.bus, bench.queue, beat_ms=50, observe=observe)
    task = asyncio.create_task(pump.run())
    try:
        await until(lambda: heard)
    finally:
        pump.stop()
        await task
    what = "ring: had work and a right to be served, but did not stand there"
    assert heard == [{"queue": bench.queue, "lane": ONE, "what": what}]


# a lane comes back from a rest


@pytest.mark.parametrize("told", [True, False], ids=["told to rest", "over its pace"])
@pytest.mark.parametrize("by", ["enqueue", "complete"])
async def test_a_lane_that_a_peer_put_into_the_ring_while_it_rested_stands_there_once(
    bench: Bench, told: bool, by: str
) -> None:
    peer = Peer(bench)
    if not told:
        await limits.set_lane_rate(bench.bus, bench.queue, 0.0001, 2)
    await bench.fill([ONE] * 4)
    first, second = await bench.take(2)
    if told:
        await bench.settle(first, Park(60_000))
    assert await bench.ring() == []
    await (peer.run(ENQUEUE, bench.id(), "x", ONE) if by == "enqueue" else peer.run(COMPLETE, second.id, second.token))
    assert await bench.ring() == [ONE], "the peer knows no rests"
    await bench.rested(ONE)
    await promotion.promote(bench.bus, bench.queue)
    assert await bench.ring() == [ONE]
    await bench.sound()


async def test_a_lane_that_a_change_of_the_pace_brings_back_stands_in_the_ring_once(bench: Bench) -> None:
    await limits.set_lane_rate(bench.bus, bench.queue, 0.0001)
    await bench.fill([ONE] * 3)
    await bench.take(1)
    await Peer(bench).run(ENQUEUE, bench.id(), "x", ONE)
    await limits.set_lane_rate(bench.bus, bench.queue, None)
    assert await bench.ring() == [ONE]


# the default ceiling


@pytest.mark.parametrize("n", [1, 7])
async def test_a_ceiling_that_a_peer_set_over_our_default_stays(bench: Bench, n: int) -> None:
    await limits.set_default_lane_limit(bench.bus, bench.queue, 5)
    await bench.fill([ONE] * 2)
    await bench.raw("HSET", "glimit", ONE, n)
    await limits.set_default_lane_limit(bench.bus, bench.queue, 6)
    for _ in range(2):
        await bench.settle((await bench.take())[0])
    assert await bench.raw("HGETALL", "glimit") == {ONE.encode(): str(n).encode()}
    assert "gdefault" not in await bench.keys()
    await bench.fill([ONE])
    await bench.settle((await bench.take())[0])
    assert await bench.raw("HGET", "glimit", ONE) == str(n).encode()


async def test_a_ceiling_that_we_set_to_the_default_s_value_stays(bench: Bench) -> None:
    await limits.set_default_lane_limit(bench.bus, bench.queue, 5)
    await bench.fill([ONE])
    await lanes.limit(bench.bus, bench.queue, ONE, 5)
    await limits.set_default_lane_limit(bench.bus, bench.queue, None)
    await bench.settle((await bench.take())[0])
    assert await bench.raw("HGETALL", "glimit") == {ONE.encode(): b"5"}


async def test_a_changed_default_reaches_lanes_that_have_it_and_is_forgotten_after(bench: Bench) -> None:
    await limits.set_default_lane_limit(bench.bus, bench.queue, 1)
    await bench.fill([ONE] * 3 + [lane(2)] * 2)
    held = list(await bench.take(2))
    assert await bench.ring() == []
    await limits.set_default_lane_limit(bench.bus, bench.queue, 2)
    assert sorted(await bench.ring()) == sorted([ONE, lane(2)])
    held += await bench.take(2)
    for job in held:
        await bench.settle(job)
    await bench.settle((await bench.take())[0])
    assert not {"glimit", "gdefault"} & set(await bench.keys())
    await bench.sound()


async def test_a_default_ceiling_that_a_peer_left_on_an_idle_lane_goes_and_is_no_finding(bench: Bench) -> None:
    await limits.set_default_lane_limit(bench.bus, bench.queue, 5)
    await bench.fill([ONE])
    (job,) = await bench.take()
    await Peer(bench).run(COMPLETE, job.id, job.token)
    assert await bench.raw("HGETALL", "glimit") == {ONE.encode(): b"5"}
    await bench.sound()
    assert await tend_now(bench) == {}
    assert not {"glimit", "gdefault"} & set(await bench.keys())


# wake tokens in a mixed fleet


async def test_flat_work_that_a_peer_admits_is_begun_within_a_beat(bench: Bench) -> None:
    started: list[Job] = []

    async def handle(job: Job) -> None:
        started.append(job)

    options = WorkerOptions(beat_ms=300, pump=False)
    async with running(Worker(bench.bus, bench.queue, handle, options=options)):
        await parked(bench)
        await Peer(bench).run(FLAT, bench.id())
        assert await bench.wakes() == 0, "the peer leaves no token"
        await until(lambda: started)


async def test_a_flat_job_whose_token_an_idle_peer_took_is_begun_within_a_beat(bench: Bench) -> None:
    started: list[Job] = []

    async def handle(job: Job) -> None:
        started.append(job)

    # The peer waited first, so the server serves it first; it works lanes and does not look at flat work.
    peer = asyncio.create_task(bench.bus.blocking("BLPOP", bench.space.key("wake"), 20.0, wait_s=20.0))
    await parked(bench)
    async with running(Worker(bench.bus, bench.queue, handle, options=WorkerOptions(beat_ms=300, pump=False))):
        await parked(bench, 2)
        await bench.fill([None])
        assert (await peer)[1] == b"1"
        await until(lambda: started)
