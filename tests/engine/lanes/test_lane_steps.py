"""Whatever happens to a job, its lane stands where it belongs: once in the ring, with its ceiling; somebody wakes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from codemojex.engine.inspection import admin
from codemojex.engine.jobs import cancel
from codemojex.engine.jobs.outcome import Discard, GiveBack, Retry
from codemojex.engine.lanes import lanes, limits
from codemojex.engine.maintenance import promotion, recovery
from tests.engine.bench import Bench, lane


async def given_back(b: Bench) -> None:
    (job,) = await b.take()
    await b.raw("DEL", "wake")
    await b.settle(job, GiveBack())


async def lapsed(b: Bench) -> None:
    (job,) = await b.take()
    await b.lapse(job)
    await b.raw("DEL", "wake")
    assert (await recovery.recover(b.bus, b.queue)).waiting == [job.id]


async def reprocessed(b: Bench) -> None:
    (job,) = await b.take()
    await b.settle(job, Discard("no"))
    await b.raw("DEL", "wake")
    assert await admin.reprocess(b.bus, b.queue, job.id)


async def come_due(b: Bench) -> None:
    (job,) = await b.take()
    await b.settle(job, Retry("no", 60_000))
    await b.due(job.id)
    await b.raw("DEL", "wake")
    assert (await promotion.promote(b.bus, b.queue)).jobs == 1


@pytest.mark.parametrize("name", [None, lane(1)])
@pytest.mark.parametrize("comes_back", [given_back, lapsed, reprocessed, come_due])
async def test_a_job_that_comes_back_stands_at_its_old_place_and_wakes_a_worker(
    bench: Bench, comes_back: Callable[[Bench], Awaitable[None]], name: str | None
) -> None:
    (job_id,) = await bench.fill([name])
    assert await bench.wakes() == 1
    await comes_back(bench)
    assert await bench.wakes() == 1
    assert await bench.raw("ZSCORE", f"g:{name}:pending" if name else "pending", job_id) == 0, "its old place"
    await bench.take()


async def ended(b: Bench) -> None:
    (job,) = await b.take()
    await b.settle(job)


async def died_stalled(b: Bench) -> None:
    (job,) = await b.take()
    await b.lapse(job)
    assert (await recovery.recover(b.bus, b.queue, max_stalled=1)).dead == [job.id]


async def removed_in_flight(b: Bench) -> None:
    (job,) = await b.take()
    assert await admin.remove_job(b.bus, b.queue, job.id)


async def removed_waiting(b: Bench) -> None:
    assert await admin.remove_job(b.bus, b.queue, await first_waiting(b))


async def cancelled(b: Bench) -> None:
    assert await cancel.request(b.bus, b.queue, await first_waiting(b), "why") == cancel.Answer.CANCELLED


async def drained(b: Bench) -> None:
    assert await lanes.drain(b.bus, b.queue, lane(1), 1) == 1


async def moved_away(b: Bench) -> None:
    assert await lanes.move(b.bus, b.queue, await first_waiting(b), lane(2)) == "moved"
    assert await admin.remove_job(b.bus, b.queue, (await b.raw("ZRANGE", f"g:{lane(2)}:pending", 0, 0))[0].decode())


async def moved_here(b: Bench) -> None:
    (job_id,) = await b.fill([lane(2)])
    assert await lanes.move(b.bus, b.queue, job_id, lane(1)) == "moved"


async def admitted(b: Bench) -> None:
    await b.fill([lane(1)])


async def first_waiting(b: Bench) -> str:
    return (await b.raw("ZRANGE", f"g:{lane(1)}:pending", 0, 0))[0].decode()


LEAVES = [ended, died_stalled, removed_in_flight, removed_waiting, cancelled, drained, moved_away]


@pytest.mark.parametrize("ceiling", [None, 1, 2])
@pytest.mark.parametrize("step", [given_back, lapsed, reprocessed, come_due, admitted, moved_here, *LEAVES])
async def test_whatever_a_job_does_its_lane_stands_in_the_ring_once_while_it_has_work(
    bench: Bench, step: Callable[[Bench], Awaitable[None]], ceiling: int | None
) -> None:
    await lanes.limit(bench.bus, bench.queue, lane(1), ceiling)
    await bench.fill([lane(1)] * 3)
    await step(bench)
    assert await bench.ring() == [lane(1)]
    await bench.sound()


@pytest.mark.parametrize("step", [*LEAVES, given_back, lapsed])
async def test_an_idle_lane_forgets_its_default_ceiling_and_a_waiting_one_keeps_it(
    bench: Bench, step: Callable[[Bench], Awaitable[None]]
) -> None:
    await limits.set_default_lane_limit(bench.bus, bench.queue, 2)
    await bench.fill([lane(1)])
    await step(bench)
    waits = step not in LEAVES
    assert await bench.raw("HEXISTS", "glimit", lane(1)) == waits
    assert await bench.ring() == [lane(1)] * waits
    await bench.sound()


async def test_a_lane_keeps_its_default_ceiling_while_one_of_its_jobs_is_in_flight(bench: Bench) -> None:
    await limits.set_default_lane_limit(bench.bus, bench.queue, 2)
    taken = []
    for _ in range(2):  # the lane is empty after each claim
        await bench.fill([lane(1)])
        taken += await bench.take()
        assert await bench.raw("HGET", "glimit", lane(1)) == b"2"
    for job, keeps in zip(taken, (1, 0), strict=True):
        await bench.settle(job)
        assert await bench.raw("HEXISTS", "glimit", lane(1)) == keeps
        await bench.sound()
