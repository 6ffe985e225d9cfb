"""The audit names what it found: the job, and what is wrong with it, once and in these words."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from codemojex.engine import flows
from codemojex.engine.audit import Violation, audit
from codemojex.engine.flows import Flow

from .bench import Bench, lane

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


@pytest.mark.parametrize(
    "damage", [nowhere, gone, twice, misnamed, strayed, uncounted, miscounted], ids=lambda d: d.__name__
)
async def test_the_audit_says_what_is_wrong(bench: Bench, damage: Damage) -> None:
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
    for job in await bench.take(2):
        assert (await bench.row(parent))["state"] == "awaiting_children"
        await bench.settle(job)
    assert (await bench.row(parent))["state"] == "pending"
