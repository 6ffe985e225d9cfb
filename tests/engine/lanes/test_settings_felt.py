"""Whoever waits for a limit feels at once that it was changed: parked workers of each kind, and resting lanes.

Every wait here is set to ten minutes or more, and beats to an hour: only the change can end it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager

import pytest

from codemojex.engine.inspection import admin
from codemojex.engine.jobs.jobs import Job
from codemojex.engine.jobs.outcome import Outcome, Park
from codemojex.engine.lanes import lanes, limits
from codemojex.engine.worker.batch_worker import BatchOptions, BatchWorker
from codemojex.engine.worker.worker import Worker, WorkerOptions
from tests.engine.bench import Bench, lane, running
from tests.support.waiting import until

LONG = 600_000
HOUR = 3_600_000
Change = Callable[[Bench], Awaitable[None]]


def of(verb: Callable[..., Awaitable[None]], *args: object, **more: object) -> Change:
    return lambda bench: verb(bench.bus, bench.queue, *args, **more)


RATE, BUCKET, CLEAR = limits.set_rate, limits.set_bucket, limits.clear_rate
PACE, SEATS, DEFAULT = limits.set_lane_rate, limits.set_concurrency, limits.set_default_lane_limit
ONE = lane(1)
KIND = ONE[:3]
QUEUE = [
    pytest.param(of(RATE, 1, LONG), of(RATE, 1000, 1000), id="a window widened"),
    pytest.param(of(RATE, 1, LONG), of(RATE, 1, 20), id="a window shortened"),
    pytest.param(of(RATE, 1, LONG), of(RATE, 50, LONG), id="a window with more"),
    pytest.param(of(RATE, 1, LONG), of(BUCKET, 1000, 10), id="a window made a bucket"),
    pytest.param(of(RATE, 1, LONG), of(CLEAR), id="a window cleared"),
    pytest.param(of(BUCKET, 0.001, 1), of(BUCKET, 1000, 1), id="a bucket made faster"),
    pytest.param(of(BUCKET, 0.001, 1), of(BUCKET, 0.001, 9), id="a bucket made bigger"),
    pytest.param(of(BUCKET, 0.001, 1), of(RATE, 100, LONG), id="a bucket made a window"),
    pytest.param(of(BUCKET, 0.001, 1), of(CLEAR), id="a bucket cleared"),
]
LANE = [
    pytest.param(of(PACE, 0.001), of(PACE, 1000), id="the pace of all made faster"),
    pytest.param(of(PACE, 0.001), of(PACE, 0.001, 9), id="the pace of all with a burst"),
    pytest.param(of(PACE, 0.001), of(PACE, None), id="the pace of all cleared"),
    pytest.param(of(PACE, 0.001), of(PACE, 1000, kind=KIND), id="a kind's pace set over all"),
    pytest.param(of(PACE, 0.001, kind=KIND), of(PACE, 1000, kind=KIND), id="a kind's pace made faster"),
    pytest.param(of(PACE, 0.001, kind=KIND), of(PACE, None, kind=KIND), id="a kind's pace cleared"),
    pytest.param(of(PACE, 0.001), of(PACE, 1000, lane=ONE), id="a lane's pace set over all"),
    pytest.param(of(PACE, 0.001, lane=ONE), of(PACE, 1000, lane=ONE), id="a lane's pace made faster"),
    pytest.param(of(PACE, 0.001, lane=ONE), of(PACE, None, lane=ONE), id="a lane's pace cleared"),
]


class Started:
    """Handlers that write down what they were given, and wait at the gate if there is one."""

    def __init__(self, gate: asyncio.Event | None = None) -> None:
        self.jobs: list[Job] = []
        self._gate = gate

    async def __call__(self, job: Job) -> None:
        self.jobs.append(job)
        if self._gate:
            await self._gate.wait()

    async def batch(self, jobs: Sequence[Job]) -> Mapping[str, Outcome | None]:
        for job in jobs:
            await self(job)
        return dict.fromkeys([job.id for job in jobs])


def one_by_one(bench: Bench, started: Started, **more: int) -> AbstractAsyncContextManager[object]:
    """A worker with default options, but an hour's beat, and no pump: nothing but a change brings it back."""
    options = WorkerOptions(**{"beat_ms": HOUR, "pump": False, **more})  # type: ignore[arg-type]
    return running(Worker(bench.bus, bench.queue, started, options=options))


def in_batches(bench: Bench, started: Started) -> AbstractAsyncContextManager[object]:
    options = BatchOptions(min_size=1, beat_ms=HOUR, pump=False)
    return running(BatchWorker(bench.bus, bench.queue, started.batch, options=options))


async def parked(bench: Bench, workers: int = 1) -> None:
    """The workers wait in the server, and no token is left that one could take for a change."""

    async def calm() -> bool:
        clients = (await bench.bus.execute("CLIENT", "LIST")).decode().splitlines()
        return await bench.wakes() == 0 and sum(" cmd=blpop " in line for line in clients) >= workers

    await until(calm, "every worker is parked")


@pytest.mark.parametrize(("before", "after"), QUEUE)
@pytest.mark.parametrize("worker", [one_by_one, in_batches])
async def test_a_changed_rate_reaches_a_parked_worker(
    bench: Bench, worker: Callable[..., AbstractAsyncContextManager[object]], before: Change, after: Change
) -> None:
    started = Started()
    await before(bench)
    await bench.fill([None, ONE, None, ONE, None])
    async with worker(bench, started):
        await until(lambda: started.jobs)
        await parked(bench)
        assert len(started.jobs) == 1
        await after(bench)
        await until(lambda: len(started.jobs) == 5)
    await bench.sound()


@pytest.mark.parametrize(("before", "after"), LANE)
@pytest.mark.parametrize("worker", [one_by_one, in_batches])
async def test_a_changed_pace_reaches_a_resting_lane(
    bench: Bench, worker: Callable[..., AbstractAsyncContextManager[object]], before: Change, after: Change
) -> None:
    started = Started()
    await before(bench)
    await bench.fill([ONE] * 5)
    async with worker(bench, started):
        await until(lambda: started.jobs)
        await parked(bench)
        assert len(started.jobs) == 1
        await after(bench)
        await until(lambda: len(started.jobs) == 5)
    await bench.sound()


WAITS = [
    pytest.param(of(lanes.limit, ONE, 1), of(lanes.limit, ONE, 5), 1, id="a ceiling raised"),
    pytest.param(of(lanes.limit, ONE, 1), of(lanes.limit, ONE, None), 1, id="a ceiling cleared"),
    pytest.param(of(DEFAULT, 1), of(DEFAULT, 5), 1, id="the default ceiling raised"),
    pytest.param(of(DEFAULT, 1), of(DEFAULT, None), 1, id="the default ceiling cleared"),
    pytest.param(of(DEFAULT, 1), of(lanes.limit, ONE, 5), 1, id="a ceiling set over the default"),
    pytest.param(of(SEATS, 1), of(SEATS, 5), 1, id="the concurrency raised"),
    pytest.param(of(SEATS, 1), of(SEATS, None), 1, id="the concurrency cleared"),
    pytest.param(of(admin.pause), of(admin.resume), 0, id="the queue resumed"),
    pytest.param(of(lanes.pause, ONE), of(lanes.resume, ONE), 0, id="the lane resumed"),
    pytest.param(of(lanes.park, ONE, LONG), of(lanes.park, ONE, 0), 0, id="the rest ended"),
]


@pytest.mark.parametrize(("before", "after", "out"), WAITS)
@pytest.mark.parametrize("each", [16, 1], ids=["one worker of many slots", "workers of one slot"])
async def test_a_changed_ceiling_pause_or_rest_reaches_parked_workers(
    bench: Bench, each: int, before: Change, after: Change, out: int
) -> None:
    gate = asyncio.Event()
    started = Started(gate)
    await before(bench)
    await bench.fill([ONE] * 4)
    async with asyncio.TaskGroup() as tasks:
        workers = [
            Worker(
                bench.bus,
                bench.queue,
                started,
                options=WorkerOptions(concurrency=each, beat_ms=HOUR, pump=False),
            )
            for _ in range(1 if each > 1 else 5)
        ]
        try:
            for worker in workers:
                tasks.create_task(worker.run())
            await until(lambda: len(started.jobs) == out)
            await parked(bench, len(workers) - (out if each == 1 else 0))
            assert len(started.jobs) == out
            await after(bench)
            await until(lambda: len(started.jobs) == 4)
        finally:
            gate.set()
            for worker in workers:
                worker.stop()
    await bench.sound()


@pytest.mark.parametrize(("before", "after"), [QUEUE[0], QUEUE[4], QUEUE[5]])
async def test_a_changed_rate_reaches_every_parked_worker(bench: Bench, before: Change, after: Change) -> None:
    """One token wakes one of them, and each that fills up while work is left wakes the next."""
    gate = asyncio.Event()
    started = Started(gate)
    await before(bench)
    await bench.fill([None] * 5)
    workers = [
        Worker(bench.bus, bench.queue, started, options=WorkerOptions(concurrency=1, beat_ms=HOUR, pump=False))
        for _ in range(5)
    ]
    async with asyncio.TaskGroup() as tasks:
        try:
            for worker in workers:
                tasks.create_task(worker.run())
            await until(lambda: started.jobs)
            await parked(bench, 4)
            await after(bench)
            await until(lambda: len(started.jobs) == 5)
        finally:
            gate.set()
            for worker in workers:
                worker.stop()
    await bench.sound()


async def test_a_rate_that_a_peer_changed_is_felt_within_a_beat(bench: Bench) -> None:
    """A peer writes the setting and leaves no token."""
    started = Started()
    await limits.set_rate(bench.bus, bench.queue, 1, LONG)
    await bench.fill([None] * 5)
    async with one_by_one(bench, started, beat_ms=300):
        await until(lambda: started.jobs)
        await parked(bench)
        await bench.raw("HSET", "meta", "max", 1000)
        await until(lambda: len(started.jobs) == 5)


async def test_admissions_do_not_make_a_worker_over_budget_ask_for_each(bench: Bench) -> None:
    started, asked = Started(), 0

    def observe(name: str, data: dict[str, object]) -> None:
        nonlocal asked
        asked += name == "worker.limited"

    await limits.set_rate(bench.bus, bench.queue, 1, LONG)
    await bench.fill([None])
    worker = Worker(bench.bus, bench.queue, started, options=WorkerOptions(beat_ms=HOUR, pump=False), observe=observe)
    async with running(worker), asyncio.timeout(20):
        await until(lambda: asked)
        loop = asyncio.get_running_loop()
        began, asked = loop.time(), 0
        for _ in range(300):
            await bench.fill([None])
        took = loop.time() - began
        assert asked <= 2 + took / 0.05


# what is spent and what somebody told


async def test_another_rate_of_a_bucket_keeps_what_is_spent(bench: Bench) -> None:
    await limits.set_bucket(bench.bus, bench.queue, 0.001, 10)
    await bench.fill([None] * 20)
    await bench.take(10)
    await limits.set_bucket(bench.bus, bench.queue, 0.0005, 10)
    answer = await bench.claim(10)
    assert (len(answer.jobs), 1_900_000 < answer.limited_ms <= 2_000_000) == (0, True)
    await limits.set_bucket(bench.bus, bench.queue, 0.0005, 13)
    assert len((await bench.claim(10)).jobs) == 3


async def test_another_pace_keeps_what_the_lane_has_spent(bench: Bench) -> None:
    await limits.set_lane_rate(bench.bus, bench.queue, 0.001, 3)
    await bench.fill([ONE] * 9)
    await bench.take(2)  # one unit is left, so the lane does not rest
    await limits.set_lane_rate(bench.bus, bench.queue, 0.0001, 3)
    await bench.take(1)
    rest = await bench.raw("ZSCORE", "resting", ONE)
    now = (await bench.bus.execute("TIME"))[0]
    assert 9_000 < float(rest) / 1000 - int(now) <= 10_001
    await bench.sound()


async def test_a_rest_that_somebody_told_outlives_a_change_of_the_pace(bench: Bench) -> None:
    await limits.set_lane_rate(bench.bus, bench.queue, 0.0001)
    await bench.fill([ONE] * 3)
    (job,) = await bench.take()
    await bench.settle(job, Park(LONG))  # shorter than the rest that the pace gave
    before = await bench.raw("ZSCORE", "resting", ONE)
    for after in (of(PACE, 1000), of(PACE, None), of(PACE, 1000, kind=KIND), of(PACE, 1000, lane=ONE)):
        await after(bench)
        assert await bench.raw("ZSCORE", "resting", ONE) == await bench.raw("ZSCORE", "parked", ONE) < before
        assert await bench.ring() == []
        await bench.sound()
    await lanes.park(bench.bus, bench.queue, ONE, 0)
    assert await bench.ring() == [ONE]
    assert not {"resting", "parked"} & set(await bench.keys())
