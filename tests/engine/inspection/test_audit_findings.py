"""The audit names what it found: the job, and what is wrong with it, once and in these words."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from codemojex.engine.errors import ServerError
from codemojex.engine.flows import flows
from codemojex.engine.flows.flows import Flow
from codemojex.engine.inspection.audit import Violation, audit
from codemojex.engine.jobs.outcome import Discard
from codemojex.engine.lanes import lanes
from codemojex.engine.scripts import ENGINE
from tests.engine.bench import Bench, lane

Damage = Callable[[Bench], Awaitable[tuple[str, str]]]


async def nowhere(b: Bench) -> tuple[str, str]:
    (job_id,) = await b.fill([None])
    await b.raw("ZREM", "pending", job_id)
    return job_id, "row: stands in no set, its state is pending"


async def gone(b: Bench) -> tuple[str, str]:
    job_id = b.id()
    await b.raw("ZADD", "schedule", 1, job_id)
    return job_id, "row: is gone, but the id stands in schedule"


async def twice(b: Bench) -> tuple[str, str]:
    (job_id,) = await b.fill([None])
    await b.raw("ZADD", "schedule", 1, job_id)
    return job_id, "row: stands in schedule, pending at once"


async def misnamed(b: Bench) -> tuple[str, str]:
    (job_id,) = await b.fill([None])
    await b.raw("HSET", f"job:{job_id}", "state", "dead")
    return job_id, "row: stands in pending, but its state is dead"


async def strayed(b: Bench) -> tuple[str, str]:
    (job_id,) = await b.fill([None])
    await b.raw("HSET", f"job:{job_id}", "group", lane(1))
    return job_id, f"row: stands in the flat backlog, but belongs to lane {lane(1)}"


async def lost_dead(b: Bench) -> tuple[str, str]:
    (job_id,) = await b.fill([None])
    await b.settle((await b.take())[0], Discard("no"))
    await b.raw("ZREM", "dead", job_id)
    return job_id, "row: stands in no set, its state is dead"


async def lost_from_its_lane(b: Bench) -> tuple[str, str]:
    job_id, _ = await b.fill([lane(1)] * 2)
    await b.raw("ZREM", f"g:{lane(1)}:pending", job_id)
    return job_id, "row: stands in no set, its state is pending"


async def still_waiting(b: Bench) -> tuple[str, str]:
    await b.fill([lane(1)])
    (job,) = await b.take()
    await b.raw("ZADD", f"g:{lane(1)}:pending", 0, job.id)
    await b.raw("RPUSH", "ring", lane(1))
    return job.id, f"row: stands in active, g:{lane(1)}:pending at once"


async def seat_of_nobody(b: Bench) -> tuple[str, str]:
    await lanes.limit(b.bus, b.queue, lane(1), 1)
    await b.fill([lane(1)])
    await b.raw("HSET", "gactive", lane(1), 1)
    await b.raw("DEL", "ring")
    return lane(1), "gactive: counts 1 in flight, there are 0"


async def tripled(b: Bench) -> tuple[str, str]:
    await b.fill([lane(1)])
    await b.raw("RPUSH", "ring", lane(1), lane(1))
    return lane(1), "ring: stands there more than once"


async def seat_too_few(b: Bench) -> tuple[str, str]:
    await b.fill([lane(1)])
    await b.take()
    await b.raw("DEL", "gactive")
    return lane(1), "gactive: counts nothing in flight, there are 1"


async def zero_seats(b: Bench) -> tuple[str, str]:
    await b.raw("HSET", "gactive", lane(1), 0)
    return lane(1), "gactive: counts 0 in flight, there are 0"


async def uncounted(b: Bench) -> tuple[str, str]:
    parent = await family(b)
    await b.raw("DEL", f"job:{parent}:dependencies")
    return parent, "row: waits for children, but counts none"


async def miscounted(b: Bench) -> tuple[str, str]:
    parent = await family(b)
    await b.raw("SET", f"job:{parent}:dependencies", 7)
    return parent, "row: counts 7 children to wait for, there are 2"


async def family(b: Bench) -> str:
    """A parent that waits for two children."""
    parent = b.job()
    await flows.add(b.bus, b.queue, Flow(parent, [Flow(b.job()), Flow(b.job())]))
    return parent.id


ROWS = [nowhere, gone, twice, misnamed, strayed, lost_dead, lost_from_its_lane, still_waiting, uncounted, miscounted]
LANES = [seat_of_nobody, seat_too_few, zero_seats, tripled]


@pytest.mark.parametrize("damage", ROWS + LANES, ids=lambda d: d.__name__)
async def test_the_audit_says_what_is_wrong_and_its_repair_leaves_no_more_to_say(bench: Bench, damage: Damage) -> None:
    found = Violation(*await damage(bench))
    assert await audit(bench.bus, bench.queue) == [found]
    assert await audit(bench.bus, bench.queue, repair=True) == [found]
    await bench.sound()


async def test_a_repaired_parent_waits_for_as_many_children_as_there_are(bench: Bench) -> None:
    parent, _ = await miscounted(bench)
    await audit(bench.bus, bench.queue)
    assert await bench.raw("GET", f"job:{parent}:dependencies") == b"7", "looking repairs nothing"
    await audit(bench.bus, bench.queue, repair=True)
    assert await bench.raw("GET", f"job:{parent}:dependencies") == b"2"
    first, second = await bench.take(2)
    await bench.settle(first)
    await bench.raw("SET", f"job:{parent}:dependencies", 0)
    await audit(bench.bus, bench.queue, repair=True)
    assert (await bench.row(parent))["state"] == "awaiting_children"
    await bench.settle(second)
    assert (await bench.row(parent))["state"] == "pending"
    await bench.sound()


@pytest.mark.parametrize("heard", [0, -3])
async def test_a_parent_that_heard_of_all_its_children_is_released_by_the_repair(bench: Bench, heard: int) -> None:
    parent, _ = await miscounted(bench)
    await bench.raw("HSET", f"job:{parent}:processed", "one", "r")
    await bench.raw("HSET", f"job:{parent}:unsuccessful", "two", "e")
    await bench.raw("SET", f"job:{parent}:dependencies", heard)
    await audit(bench.bus, bench.queue, repair=True)
    assert (await bench.row(parent))["state"] == "pending"
    await bench.sound()


async def test_a_repaired_job_wakes_a_worker(bench: Bench) -> None:
    await nowhere(bench)
    await bench.raw("DEL", "wake")
    await audit(bench.bus, bench.queue, repair=True)
    assert await bench.wakes() == 1


async def test_a_queue_with_too_many_jobs_in_flight_is_not_looked_at_in_one_step(bench: Bench) -> None:
    await bench.raw("ZADD", "active", *(part for n in range(20_001) for part in (1, n)))
    with pytest.raises(ServerError, match="more than 20000 jobs in flight"):
        await bench.bus.run(ENGINE.script("audit_active"), (bench.space.prefix,), (0,))
    await bench.raw("ZREM", "active", 0)
    assert await bench.bus.run(ENGINE.script("audit_active"), (bench.space.prefix,), (0,)) == []
    await bench.raw("DEL", "active")
