"""A handler that blocks its event loop keeps its lease up to a bound, and is told how to do better."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any

import pytest

from codemojex.engine.inspection import metrics
from codemojex.engine.jobs.jobs import Job
from codemojex.engine.jobs.settlement import Gone, Settled, Stale
from codemojex.engine.transport.connector import Connector
from codemojex.engine.worker import lease_guard
from codemojex.engine.worker.worker import Worker, WorkerOptions
from tests.engine.bench import Bench, running
from tests.support.topologies import Cluster, ReplicaSet

LEASE_MS = 1000
QUICK = WorkerOptions(concurrency=1, lease_ms=LEASE_MS, beat_ms=100)
Blocks = Callable[[Job], Awaitable[None]]


class Told:
    """What workers told, of all threads."""

    def __init__(self) -> None:
        self.events: list[tuple[str, dict[str, Any]]] = []

    def __call__(self, name: str, data: dict[str, Any]) -> None:
        self.events.append((name, data))

    def of(self, name: str) -> list[dict[str, Any]]:
        return [data for each, data in self.events if each == name]


async def until(ready: Callable[[], object], within_s: float = 20) -> None:
    async with asyncio.timeout(within_s):
        while not ready():
            await asyncio.sleep(0.02)


@contextlib.asynccontextmanager
async def elsewhere(
    url: str, queue: str, handler: Blocks, told: Told, options: WorkerOptions = QUICK
) -> AsyncGenerator[None]:
    """A worker in another thread with an event loop of its own, as another process has it."""
    loops: list[tuple[asyncio.AbstractEventLoop, Worker]] = []

    async def work() -> None:
        bus = await Connector.connect(url)
        try:
            worker = Worker(bus, queue, handler, options=options, observe=told)
            loops.append((asyncio.get_running_loop(), worker))
            await worker.run()
        finally:
            await bus.close()

    thread = threading.Thread(target=lambda: asyncio.run(work()), daemon=True)
    thread.start()
    try:
        yield
    finally:
        await until(lambda: loops)
        loop, worker = loops[0]
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(worker.stop)
        await until(lambda: not thread.is_alive())


def blocking(seconds: float, runs: list[str]) -> Blocks:
    async def block(job: Job) -> None:
        runs.append(job.id)
        time.sleep(seconds)  # noqa: ASYNC251  # the mistake that all this is about

    return block


async def test_a_handler_that_blocks_past_its_lease_is_run_once(bench: Bench, valkey_url: str) -> None:
    runs: list[str] = []
    told = Told()
    block = blocking(2.2 * LEASE_MS / 1000, runs)
    async with elsewhere(valkey_url, bench.queue, block, told), elsewhere(valkey_url, bench.queue, block, told):
        (job_id,) = await bench.fill([None])
        await until(lambda: told.of("worker.settled"))
    assert runs == [job_id]
    assert [data["verdict"] for data in told.of("worker.settled")] == [Settled("completed")]
    counts = await metrics.counts(bench.bus, bench.queue)
    assert (counts.completed, counts.dead, counts.blocked) == (1, 0, 1)
    (warning,) = told.of("worker.loop_blocked")
    assert warning["jobs"] == [job_id]
    assert warning["late_ms"] >= LEASE_MS
    assert str(warning["handler"]).endswith("blocking.<locals>.block")
    assert "test_blocked_loops.py" in str(warning["where"])
    assert "plain function" in str(warning["remedy"])
    await bench.sound()


async def test_a_job_whose_handler_blocks_beyond_the_bound_is_given_up_once(
    bench: Bench, valkey_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    runs: list[str] = []
    told = Told()
    options = WorkerOptions(concurrency=1, lease_ms=300, beat_ms=50)
    block = blocking(4, runs)  # 13 leases; a first holder lapses after 4, a second one is ended after 3 more
    with caplog.at_level(logging.WARNING):
        async with (
            elsewhere(valkey_url, bench.queue, block, told, options),
            elsewhere(valkey_url, bench.queue, block, told, options),
            elsewhere(valkey_url, bench.queue, block, told, options),
        ):
            (job_id,) = await bench.fill([None])
            await until(lambda: len(told.of("worker.settled")) == 2)
    assert runs == [job_id] * 2, "another worker takes it, once"
    assert all(isinstance(data["verdict"], Gone | Stale) for data in told.of("worker.settled")), "results are refused"
    row = await bench.row(job_id)
    assert row["state"] == "dead"
    assert "blocked the event loop" in row["last_error"]
    assert "plain function" in row["last_error"]
    lines = [record.getMessage() for record in caplog.records if "given up" in record.getMessage()]
    assert len(lines) == 2
    assert all(job_id in line and "blocking.<locals>.block" in line and "plain function" in line for line in lines)
    await bench.sound()


async def test_a_job_with_a_time_limit_is_kept_until_that(bench: Bench, valkey_url: str) -> None:
    runs: list[str] = []
    told = Told()
    options = WorkerOptions(concurrency=1, lease_ms=300, beat_ms=50)
    block = blocking(2.4, runs)  # 8 leases
    async with (
        elsewhere(valkey_url, bench.queue, block, told, options),
        elsewhere(valkey_url, bench.queue, block, told, options),
    ):
        await bench.put(bench.job(timeout_ms=60_000))
        await until(lambda: told.of("worker.settled"))
    assert len(runs) == 1
    assert told.of("worker.settled")[0]["verdict"] == Settled("completed")


async def test_who_only_waits_beside_a_blocked_loop_goes_back_uncharged(bench: Bench, valkey_url: str) -> None:
    told, helped = Told(), Told()
    blocked = threading.Event()
    by: list[tuple[bytes, int]] = []

    async def bad(job: Job) -> None:
        if job.payload == b"bad":
            blocked.set()
            time.sleep(5)  # noqa: ASYNC251  # as above
        await asyncio.sleep(60)

    async def good(job: Job) -> None:
        by.append((job.payload, job.stalled))

    options = WorkerOptions(concurrency=2, lease_ms=400, beat_ms=50, grace_ms=0, unwind_ms=200)
    async with elsewhere(valkey_url, bench.queue, bad, told, options):
        await bench.fill([None], b"innocent")
        await until(lambda: told.of("worker.claimed"))
        await bench.fill([None], b"bad")
        await until(blocked.is_set)
        async with running(Worker(bench.bus, bench.queue, good, observe=helped)):
            await until(lambda: len(by) == 2)
    assert sorted(by) == [(b"bad", 1), (b"innocent", 0)], "only the lease of the one that blocks lapsed"


async def test_the_guard_is_one_thread_without_a_socket_while_loops_turn(bench: Bench) -> None:
    def guards() -> int:
        return sum(thread.name == "lease-guard" for thread in threading.enumerate())

    async def work(job: Job) -> None:
        await asyncio.sleep(0.5)

    await until(lambda: not guards())
    await bench.fill([None] * 4)
    told = Told()
    options = WorkerOptions(concurrency=2, lease_ms=300)
    one, two = (Worker(bench.bus, bench.queue, work, options=options, observe=told) for _ in range(2))
    async with running(one), running(two):
        await until(lambda: len(told.of("worker.settled")) == 4)
        assert guards() == 1
        assert lease_guard.guard._ways == {}  # pyright: ignore[reportPrivateUsage]
    await until(lambda: not guards())
    assert (await metrics.counts(bench.bus, bench.queue)).blocked == 0


@pytest.mark.parametrize("topology", [Cluster, ReplicaSet])
async def test_the_guard_finds_the_servers_of_every_topology(topology: type[Cluster | ReplicaSet], queue: str) -> None:
    servers = topology()
    try:
        await servers.start()
        told = Told()
        runs: list[str] = []
        async with (
            elsewhere(servers.url, queue, blocking(2.2, runs), told),
            elsewhere(servers.url, queue, blocking(2.2, runs), told),
        ):
            bus = await Connector.connect(servers.url)
            bench = Bench(bus, queue)
            await bench.fill([None])
            await until(lambda: told.of("worker.settled"))
            await bus.close()
        assert len(runs) == 1
    finally:
        servers.close()
