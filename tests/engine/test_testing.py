"""What is shipped for tests of others keeps its own promises."""

from __future__ import annotations

import pytest

from codemojex.engine.errors import InvalidValue, Unavailable, UnknownOutcome
from codemojex.engine.jobs import claims, jobs, registry
from codemojex.engine.jobs.jobs import Duplicate, Enqueued, Job
from codemojex.engine.jobs.outcome import Complete, Delay, Outcome, Retry
from codemojex.engine.lanes import lanes
from codemojex.engine.maintenance import promotion
from codemojex.engine.testing import FaultyConnector, fresh_queue, purge, run_until_idle
from codemojex.engine.worker.batch_worker import BatchOptions, BatchWorker
from codemojex.engine.worker.worker import Worker, WorkerOptions
from tests.engine.bench import Bench, lane


async def keys_of(bench: Bench, queue: str) -> dict[str, str]:
    return await Bench(bench.bus, queue).keys()


async def test_a_fresh_queue_is_nobodys_and_leaves_nothing_also_after_a_failure(bench: Bench) -> None:
    names: list[str] = []
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            async with fresh_queue(bench.bus) as queue:
                names.append(queue)
                await jobs.admit_many(
                    bench.bus, queue, [bench.job(), bench.job(lane=lane(1)), bench.job(delay_ms=5000)]
                )
                await claims.claim_many(bench.bus, queue, 1, 5_000)
                assert await keys_of(bench, queue)
                raise ZeroDivisionError
    assert names[0] != names[1]
    for name in names:
        assert await keys_of(bench, name) == {}
        assert name not in await registry.queues(bench.bus)


async def test_a_purge_leaves_other_queues_alone(bench: Bench) -> None:
    await bench.fill([None])
    async with fresh_queue(bench.bus) as queue:
        await jobs.enqueue(bench.bus, queue, bench.id(), b"x")
        assert await purge(bench.bus, queue) >= 2
        assert await keys_of(bench, queue) == {}
    assert (await bench.claim()).jobs


async def test_a_worker_runs_until_nothing_is_left_to_do_now(bench: Bench) -> None:
    seen: list[str] = []

    async def handle(job: Job) -> Outcome:
        seen.append(job.id)
        if len(seen) <= 3:
            return Retry("again", 0)
        return Complete()

    await bench.fill([None, lane(1), lane(1), lane(2)])
    later = bench.job(delay_ms=60_000)
    await bench.put(later)
    await lanes.pause(bench.bus, bench.queue, lane(3))
    await bench.fill([lane(3)])
    await run_until_idle(bench.bus, bench.queue, Worker(bench.bus, bench.queue, handle))
    assert len(seen) == 7
    assert len(set(seen)) == 4
    assert (await promotion.promote(bench.bus, bench.queue)).next_due_ms is not None
    assert await lanes.depth(bench.bus, bench.queue, lane(3)) == 1
    await bench.sound()


async def test_what_is_due_soon_is_waited_for_when_asked(bench: Bench) -> None:
    calls: list[str] = []

    async def handle(job: Job) -> Outcome:
        calls.append(job.id)
        return Complete() if len(calls) > 1 else Delay(80)

    await bench.fill([None])
    await run_until_idle(bench.bus, bench.queue, Worker(bench.bus, bench.queue, handle), ahead_ms=1_000)
    assert len(calls) == 2


async def test_a_queue_that_cannot_become_idle_is_named_after_the_deadline(bench: Bench) -> None:
    async def handle(job: Job) -> Outcome:
        return Retry("never", 0)

    await bench.fill([None])
    options = WorkerOptions(max_attempts=1_000_000)
    with pytest.raises(TimeoutError, match=bench.queue):
        await run_until_idle(
            bench.bus, bench.queue, Worker(bench.bus, bench.queue, handle, options=options), timeout_s=0.2
        )


async def test_batch_workers_run_until_idle_as_well(bench: Bench) -> None:
    sizes: list[int] = []

    async def handle(batch: object) -> dict[str, Outcome | None]:
        sizes.append(len(batch))  # type: ignore[arg-type]
        return {job.id: None for job in batch}  # type: ignore[attr-defined]

    await bench.fill([None] * 7)
    options = BatchOptions(min_size=5, max_size=5, timeout_ms=50)
    await run_until_idle(bench.bus, bench.queue, BatchWorker(bench.bus, bench.queue, handle, options=options))
    assert sum(sizes) == 7


async def test_a_refused_command_did_not_run_and_a_lost_one_did(bench: Bench) -> None:
    job = bench.job()
    refusing = FaultyConnector(bench.bus, seed=1, refuse=1, lose=0)
    with pytest.raises(Unavailable):
        await jobs.admit(refusing, bench.queue, job)
    losing = FaultyConnector(bench.bus, seed=1, refuse=0, lose=1)
    assert await bench.keys() == {}
    with pytest.raises(UnknownOutcome):
        await jobs.admit(losing, bench.queue, job)
    assert await jobs.admit(bench.bus, bench.queue, job) == Duplicate(job.id)
    assert (refusing.refused, refusing.lost) == (1, 0)
    assert (losing.refused, losing.lost >= 1) == (0, True)
    losing.lose = 0
    assert await jobs.admit(losing, bench.queue, bench.job()) == Enqueued()


async def test_the_same_seed_gives_the_same_faults(bench: Bench) -> None:
    async def story(seed: int) -> list[str]:
        bus, told = FaultyConnector(bench.bus, seed=seed, refuse=0.3, lose=0.3), list[str]()
        for _ in range(40):
            try:
                await bus.execute("PING")
                told.append("ok")
            except (Unavailable, UnknownOutcome) as error:
                told.append(type(error).__name__)
        return told

    first = await story(1)
    assert set(first) == {"ok", "Unavailable", "UnknownOutcome"}
    assert first == await story(1) != await story(2)


async def test_a_worker_does_every_job_once_over_a_faulty_connector(bench: Bench) -> None:
    ids = await bench.fill([None, lane(1), lane(2)] * 10)
    bus = FaultyConnector(bench.bus, seed=7, refuse=0.1, lose=0.1)
    done: set[str] = set()

    async def handle(job: Job) -> None:
        done.add(job.id)

    options = WorkerOptions(lease_ms=400, beat_ms=50, max_stalled=100)
    await run_until_idle(bench.bus, bench.queue, Worker(bus, bench.queue, handle, options=options))
    assert done == set(ids)
    assert bus.refused + bus.lost > 0
    await bench.sound()


async def test_shares_that_are_none_are_refused(bench: Bench) -> None:
    with pytest.raises(InvalidValue, match="lose"):
        FaultyConnector(bench.bus, seed=1, lose=2)
