"""The audit sees every kind of damage, and its repair leaves a queue that works."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from codemojex.engine.inspection.audit import audit
from codemojex.engine.jobs.outcome import Discard
from codemojex.engine.lanes import lanes, limits
from tests.engine.bench import Bench, lane

Damage = Callable[[Bench], Awaitable[object]]


async def lost_lane(b: Bench) -> None:
    await b.raw("LREM", "ring", 0, lane(1))


async def doubled_lane(b: Bench) -> None:
    await b.raw("RPUSH", "ring", lane(1))


async def idle_lane_in_the_ring(b: Bench) -> None:
    await b.raw("RPUSH", "ring", lane(7))


async def paused_lane_in_the_ring(b: Bench) -> None:
    await b.raw("SADD", "paused", lane(1))


async def resting_lane_in_the_ring(b: Bench) -> None:
    await b.raw("ZADD", "resting", 4_000_000_000_000, lane(1))


async def full_lane_in_the_ring(b: Bench) -> None:
    await b.raw("HSET", "glimit", lane(2), 1)


async def seat_too_many(b: Bench) -> None:
    await b.raw("HINCRBY", "gactive", lane(2), 1)


async def seat_too_few(b: Bench) -> None:
    await b.raw("HDEL", "gactive", lane(2))


async def seat_of_nobody(b: Bench) -> None:
    await b.raw("HSET", "gactive", lane(9), 2)


async def zero_seat(b: Bench) -> None:
    await b.raw("HSET", "gactive", lane(9), 0)


async def row_lost_from_its_lane(b: Bench) -> None:
    ids = await b.raw("ZRANGE", f"g:{lane(1)}:pending", 0, -1)
    await b.raw("ZREM", f"g:{lane(1)}:pending", ids[0])


async def row_lost_from_the_flat_backlog(b: Bench) -> None:
    await b.raw("ZREM", "pending", (await b.raw("ZRANGE", "pending", 0, 0))[0])


async def ghost_in_a_lane(b: Bench) -> None:
    await b.raw("ZADD", f"g:{lane(1)}:pending", 0, b.id())


async def ghost_in_a_lane_of_its_own(b: Bench) -> None:
    await b.raw("ZADD", f"g:{lane(6)}:pending", 0, b.id())


async def ghost_in_flight(b: Bench) -> None:
    await b.raw("ZADD", "active", 1, b.id())


async def two_places(b: Bench) -> None:
    await b.raw("ZADD", "schedule", 1, (await b.raw("ZRANGE", "active", 0, 0))[0])


async def wrong_state(b: Bench) -> None:
    job_id = (await b.raw("ZRANGE", "dead", 0, 0))[0].decode()
    await b.raw("HSET", f"job:{job_id}", "state", "pending")


async def lane_job_in_the_flat_backlog(b: Bench) -> None:
    job_id = (await b.raw("ZPOPMIN", f"g:{lane(1)}:pending"))[0]
    await b.raw("ZADD", "pending", 0, job_id[0] if isinstance(job_id, list) else job_id)


ALL = [value for name, value in list(globals().items()) if callable(value) and name.islower() and "_" in name]


@pytest.mark.parametrize("damage", ALL, ids=lambda d: d.__name__)
async def test_damage_is_found_and_repaired(bench: Bench, damage: Damage) -> None:
    await bench.fill([lane(1)] * 3 + [lane(2)] * 3 + [None] * 3)
    await bench.put(bench.job(delay_ms=60_000, lane=lane(1)))
    for job in await bench.take(4):
        if job.lane == lane(1):
            await bench.settle(job, Discard("no"))
    await bench.sound()
    await damage(bench)
    found = await audit(bench.bus, bench.queue)
    assert found
    assert await audit(bench.bus, bench.queue, repair=True) != []
    await bench.sound()


async def test_a_queue_with_everything_in_it_is_sound(bench: Bench) -> None:
    await limits.set_default_lane_limit(bench.bus, bench.queue, 2)
    await bench.fill([lane(i % 9) for i in range(700)] + [None] * 700)
    await lanes.pause(bench.bus, bench.queue, lane(1))
    await lanes.park(bench.bus, bench.queue, lane(2), 60_000)
    await bench.claim(30)
    await bench.sound()


async def test_an_audit_looks_at_its_own_queue_only(bench: Bench) -> None:
    other = Bench(bench.bus, bench.queue + ".other")
    await other.fill([lane(1)])
    await other.raw("RPUSH", "ring", lane(1))
    await bench.sound()
    assert len(await audit(bench.bus, other.queue)) == 1
