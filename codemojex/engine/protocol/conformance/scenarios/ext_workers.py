"""Our own scenarios, workers that live: section 7.5."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from codemojex.engine.backoff import Fixed
from codemojex.engine.jobs import jobs
from codemojex.engine.jobs.jobs import Job
from codemojex.engine.jobs.outcome import Complete, Outcome, Retry
from codemojex.engine.maintenance import recovery
from codemojex.engine.protocol.conformance.fixture import ScenarioFixture, equal, that
from codemojex.engine.transport.connector import Connector
from codemojex.engine.worker.worker import Handler, Worker, WorkerOptions

_QUICK = Fixed(1)


@asynccontextmanager
async def _working(
    stage: ScenarioFixture,
    handler: Handler,
    events: list[tuple[str, dict[str, object]]] | None = None,
    bus: Connector | None = None,
    **options: Any,
) -> AsyncGenerator[Worker]:
    """A worker that runs until the block ends."""
    told = [] if events is None else events
    worker = Worker(
        bus or stage.bus,
        stage.queue,
        handler,
        options=WorkerOptions(backoff=_QUICK, **options),
        observe=lambda name, data: told.append((name, data)),
    )
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(worker.run())
        try:
            yield worker
        finally:
            worker.stop()
            async with asyncio.timeout(20):
                await running


async def _done(stage: ScenarioFixture, n: int) -> bool:
    return await stage.count("completed") == n


async def wake(stage: ScenarioFixture) -> None:
    """An idle worker picks new work up within a round trip, flat or in a lane, not at its next beat."""
    seen: list[float] = []

    async def handle(job: Job) -> None:
        seen.append(time.monotonic())

    async with _working(stage, handle, beat_ms=30_000):
        for number, lane in enumerate((None, stage.lane(1), None), 1):
            await asyncio.sleep(0.05)
            sent = time.monotonic()
            await stage.fill(lane)
            await stage.until(lambda number=number: len(seen) == number, "the job is picked up")
            that(seen[-1] - sent < 2, f"it is picked up at once, not after {seen[-1] - sent:.1f} s")


async def renewed_lease(stage: ScenarioFixture) -> None:
    """A handler that takes longer than its lease keeps it: the worker renews, nobody recovers, it runs once."""
    runs: Counter[str] = Counter()

    async def handle(job: Job) -> None:
        runs[job.id] += 1
        await asyncio.sleep(0.6)

    async with _working(stage, handle, lease_ms=200, beat_ms=50):
        await stage.fill(None, stage.lane(1))
        await stage.until(lambda: _done(stage, 2), "both jobs are done")
    equal(sorted(runs.values()), [1, 1], "how often each ran")
    await stage.sound()


async def lost_lease(stage: ScenarioFixture) -> None:
    """A handler whose lease went to somebody else is cancelled with a reason, and its late result changes nothing."""
    reasons: list[str] = []
    started, events = asyncio.Event(), list[tuple[str, dict[str, object]]]()

    async def handle(job: Job) -> None:
        started.set()
        try:
            await asyncio.sleep(30)
        except asyncio.CancelledError as reason:
            reasons.append(str(reason))
            raise

    async with _working(stage, handle, events, lease_ms=300, concurrency=1, pump=False):
        (job_id,) = await stage.fill(None)
        async with asyncio.timeout(10):
            await started.wait()
        await stage.lapse(job_id)
        await recovery.recover(stage.bus, stage.queue)
        (thief,) = await stage.take()
        equal(thief.id, job_id, "the job of the second holder")
        await stage.until(lambda: bool(reasons), "the first handler is told")
        that("lease" in reasons[0], f"the reason names the lease: {reasons[0]!r}")
        equal((await stage.row(job_id))["attempts"], "2", "the token")
        equal((await stage.row(job_id))["state"], "active", "the second holder's job")
        await stage.settle(thief)
    that(any(name == "worker.lease_lost" for name, _ in events), "the loss is told to the observer")
    equal(await stage.count("completed"), 1, "completions")


async def bad_job(stage: ScenarioFixture) -> None:
    """A handler that raises or answers nonsense charges its own job only; the loop goes on and keeps the error."""
    bad, odd, good = stage.job(b"raise"), stage.job(b"odd"), stage.job(b"good")

    async def handle(job: Job) -> Outcome | None:
        if job.payload == b"raise":
            raise ValueError("broken payload")
        return "nonsense" if job.payload == b"odd" else None  # pyright: ignore[reportReturnType]  # that is the point

    async with _working(stage, handle, max_attempts=2, beat_ms=50):
        await stage.put(bad, odd, good)
        await stage.until(lambda: _dead(stage, 2), "the bad ones are dead")
    equal(await stage.count("completed"), 1, "completions")
    equal((await stage.row(bad.id))["last_error"], "ValueError: broken payload", "the kept error")


async def _dead(stage: ScenarioFixture, n: int) -> bool:
    return await stage.raw("ZCARD", "dead") == n


async def busy_time(stage: ScenarioFixture) -> None:
    """Due and lapsed jobs come back on time however busy the queue is."""
    seen: Counter[str] = Counter()

    async def handle(job: Job) -> Outcome:
        seen[job.id] += 1
        await asyncio.sleep(0.001)
        return Complete() if job.payload == b"x" else Retry("again", 0)

    lapsed_id, *_ = await stage.fill(None)
    await stage.take()
    await stage.lapse(lapsed_id)
    later = stage.job(delay_ms=50)
    await stage.put(later, *(stage.job(b"again", max_attempts=1_000) for _ in range(40)))
    async with _working(stage, handle, concurrency=4):
        await stage.until(lambda: seen[later.id] == 1 and seen[lapsed_id] == 1, "both run beside endless work")


async def shutdown(stage: ScenarioFixture) -> None:
    """A stop lets handlers finish within the grace and gives the rest back: no attempt charged, nothing in flight."""
    begun = asyncio.Event()

    async def handle(job: Job) -> None:
        if job.payload == b"slow":
            begun.set()
            await asyncio.sleep(60)
        else:
            await begun.wait()
            await asyncio.sleep(0.05)

    slow, quick = stage.job(b"slow"), stage.job(b"quick")
    async with _working(stage, handle, concurrency=2, grace_ms=200) as worker:
        await stage.put(slow, quick)
        async with asyncio.timeout(10):
            await begun.wait()
        worker.stop()
        later = stage.job(b"later")
        await stage.put(later)
    row = await stage.row(slow.id)
    equal((row["state"], row.get("failures"), row.get("stalled")), ("pending", None, None), "the unfinished job's row")
    equal(await stage.row(quick.id), {}, "the row of the job that finished in time")
    equal((await stage.row(later.id))["attempts"], "0", "attempts of what came after the stop")
    equal(await stage.kind("active"), "none", "the jobs in flight")


async def lost_socket(stage: ScenarioFixture) -> None:
    """A worker whose sockets are cut goes on by itself; every job ends once."""
    bus = await stage.connect(max_connections=1, max_blocking=1)
    sockets = [await bus.execute("CLIENT", "ID"), await bus.blocking("CLIENT", "ID", wait_s=1)]
    seen: Counter[str] = Counter()

    async def handle(job: Job) -> None:
        seen[job.id] += 1
        await asyncio.sleep(0.01)

    await stage.fill(*[None] * 60)
    async with _working(stage, handle, bus=bus, concurrency=2, lease_ms=2_000, beat_ms=100):
        await stage.until(lambda: len(seen) > 5, "work begins")
        for socket in sockets:
            await stage.bus.execute("CLIENT", "KILL", "ID", socket)
        await stage.until(lambda: _done(stage, 60), "all jobs are done")
    equal((len(seen), await stage.count("completed")), (60, 60), "jobs that ran, and that ended")
    await stage.sound()


async def script_flush(stage: ScenarioFixture) -> None:
    """A server that forgot every script is taught again in passing; no call fails."""
    seen: Counter[str] = Counter()

    async def handle(job: Job) -> None:
        seen[job.id] += 1

    async with _working(stage, handle):
        for round_ in range(1, 4):
            await stage.bus.at(stage.space.prefix, "SCRIPT", "FLUSH", "SYNC")
            await asyncio.gather(*(jobs.enqueue(stage.bus, stage.queue, stage.id(), b"x") for _ in range(5)))
            await stage.until(lambda n=5 * round_: _done(stage, n), "the round is done")
    equal(set(seen.values()), {1}, "how often each ran")


async def wake_tokens(stage: ScenarioFixture) -> None:
    """Admission leaves a token for each lane that it made serviceable and each flat job, none for a lane at work."""
    await stage.fill(*(stage.lane(i) for i in range(5)), None, None)
    equal(await stage.items("wake"), ["1"] * 7, "the tokens")
    await stage.fill(*(stage.lane(i) for i in range(5)))
    equal(await stage.raw("LLEN", "wake"), 7, "tokens after more work for the same lanes")
    for delay_ms, tokens in ((60_000, 8), (90_000, 8), (30_000, 9)):
        await stage.put(stage.job(delay_ms=delay_ms))
        equal(await stage.raw("LLEN", "wake"), tokens, "tokens: one for a job that is the next one due")


async def blocked_loop(stage: ScenarioFixture) -> None:
    """A handler that blocks the event loop is told to the observer, with how late the renewal was."""
    told: list[tuple[str, dict[str, object]]] = []

    async def handle(job: Job) -> None:
        time.sleep(0.15)  # noqa: ASYNC251  # the mistake that is to be seen

    async with _working(stage, handle, told, lease_ms=150, pump=False):
        await stage.fill(None)
        await stage.until(lambda: any(name == "worker.loop_blocked" for name, _ in told), "it is told")
    late = next(data["late_ms"] for name, data in told if name == "worker.loop_blocked")
    that(isinstance(late, int) and late > 0, f"how late it was: {late}")
