"""A worker whose server gives no answer drops its sockets and finds it anew; an idle or a busy one does not."""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path

import pytest

from codemojex.engine.errors import Unavailable
from codemojex.engine.jobs import jobs
from codemojex.engine.testing import FaultyConnector
from codemojex.engine.transport.connector import Connector
from codemojex.engine.worker.worker import Worker, WorkerOptions
from tests.engine.bench import Bench
from tests.support.valkey import ValkeyServer
from tests.support.waiting import until

Start = Callable[..., ValkeyServer]
PATIENT_S = 120.0  # commands have no time limit of their own here


class Wire:
    """A way to a server whose present connections can die without a word, as behind a router that forgot them."""

    def __init__(self, server: ValkeyServer, directory: Path) -> None:
        self._server = server
        self._path = directory / "w"
        self._lines: set[asyncio.Task[None]] = set()
        self._dead: set[asyncio.Task[None]] = set()
        self.url = f"unix://{self._path}"

    async def run(self, stop: asyncio.Event) -> None:
        async with await asyncio.start_unix_server(self._connected, self._path):
            await stop.wait()
            for line in self._lines | self._dead:
                line.cancel()

    def cut(self) -> None:
        """Nothing passes any more on what is connected now; nobody is told."""
        self._dead |= self._lines

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        line = asyncio.current_task()
        assert line is not None
        self._lines.add(line)
        up, down = await asyncio.open_unix_connection(str(self._server.socket_path))
        with contextlib.suppress(OSError, asyncio.CancelledError):
            await asyncio.gather(self._pass(reader, down, line), self._pass(up, writer, line))
        for end in (writer, down):
            end.close()

    async def _pass(self, source: asyncio.StreamReader, target: asyncio.StreamWriter, line: asyncio.Task[None]) -> None:
        while data := await source.read(65536):
            if line not in self._dead:
                target.write(data)
        if line not in self._dead:
            target.close()


@pytest.fixture
async def wire(start_valkey: Start) -> AsyncIterator[Wire]:
    stop = asyncio.Event()
    with tempfile.TemporaryDirectory(prefix="cmxw-") as directory:
        wire = Wire(start_valkey(), Path(directory))
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(wire.run(stop))
            await until(lambda: Path(directory, "w").exists(), "the wire is up")
            yield wire
            stop.set()


class Seen:
    """A worker of `queue`, what it handled and what it told."""

    def __init__(self, bus: Connector, queue: str, **options: int) -> None:
        self.handled: list[str] = []
        self.told: list[str] = []
        self.release = asyncio.Event()
        self.release.set()

        async def handle(job: jobs.Job) -> None:
            self.handled.append(job.id)
            await self.release.wait()

        self.worker = Worker(
            bus,
            queue,
            handle,
            options=WorkerOptions(grace_ms=0, **options),
            observe=lambda name, _: self.told.append(name),
        )

    async def __aenter__(self) -> Seen:
        self._tasks = asyncio.TaskGroup()
        await self._tasks.__aenter__()
        self._tasks.create_task(self.worker.run())
        return self

    async def __aexit__(self, *problem: object) -> None:
        self.worker.stop()
        await self._tasks.__aexit__(None, None, None)


async def test_a_half_dead_connection_is_dropped_and_work_goes_on(wire: Wire, queue: str) -> None:
    opened: list[object] = []  # what each new socket is for

    def observe(name: str, data: Mapping[str, object]) -> None:
        if name == "connector.connection":
            opened.append(data["use"])

    bus = await Connector.connect(wire.url, timeout_s=PATIENT_S, observe=observe)
    async with Seen(bus, queue, silent_ms=300, beat_ms=50) as seen:
        await until(lambda: {"commands", "waits"} <= {*opened}, "claims and wake-ups have their sockets")
        before = len(opened)
        wire.cut()
        await until(lambda: "worker.rebuilt" in seen.told, "the worker noticed")
        bench = Bench(bus, queue)
        (job_id,) = await bench.fill([None])
        await until(lambda: job_id in seen.handled, "a job is worked over new sockets")
        await until(lambda: "waits" in opened[before:], "the wake-ups have a new one as well")
        seen.release.clear()
        (held,) = await bench.fill([None])
        await until(lambda: held in seen.handled, "a job is held")
        assert await bench.raw("ZADD", "active", "XX", "CH", 1, held) == 1
        await until(lambda: seen.handled.count(held) == 2, "the pump gave the lapsed job out again")
        seen.release.set()
    await bus.close()


async def test_a_stalled_server_is_found_anew_and_work_goes_on(start_valkey: Start, queue: str) -> None:
    server = start_valkey()
    bus, producer = await Connector.connect(server.url, timeout_s=0.5), await Connector.connect(server.url)
    async with Seen(bus, queue, silent_ms=300, beat_ms=50) as seen:
        await until(lambda: "worker.started" in seen.told, "the worker runs")
        server.pause()
        await until(lambda: "worker.rebuilt" in seen.told, "the worker noticed")
        server.resume()
        (job_id,) = await Bench(producer, queue).fill([None])
        await until(lambda: job_id in seen.handled, "a job is worked")
    await bus.close()
    await producer.close()


async def test_refused_commands_are_borne_for_the_stated_time_and_no_longer(start_valkey: Start, queue: str) -> None:
    under = await Connector.connect(start_valkey().url)
    bus = FaultyConnector(under, seed=7, refuse=1.0, lose=0.0)
    async with Seen(bus, queue, silent_ms=60_000) as patient, Seen(bus, queue, silent_ms=200) as brisk:
        await until(lambda: "worker.rebuilt" in brisk.told, "the brisk one gave up")
        assert "worker.fault" in patient.told
        assert "worker.rebuilt" not in patient.told
        bus.refuse = 0.0
        (job_id,) = await Bench(under, queue).fill([None])
        await until(lambda: job_id in brisk.handled + patient.handled, "a job is worked")
    await under.close()


async def test_the_time_of_silence_begins_with_the_first_unanswered_claim(start_valkey: Start, queue: str) -> None:
    under = await Connector.connect(start_valkey().url)
    bus = FaultyConnector(under, seed=7, refuse=0.0, lose=0.0)
    async with Seen(bus, queue, silent_ms=1_500, beat_ms=10, pump=False) as seen:
        for _ in range(16):  # longer than the silence that is borne
            await asyncio.sleep(0.1)
        bus.refuse = 1.0
        async with asyncio.timeout(10):
            while "worker.fault" not in seen.told:
                await asyncio.sleep(0)
        bus.refuse = 0.0
        (job_id,) = await Bench(under, queue).fill([None])
        await until(lambda: job_id in seen.handled, "a job is worked")
    assert "worker.rebuilt" not in seen.told
    await under.close()


async def test_a_worker_that_parks_or_whose_hands_are_full_is_not_silent(bench: Bench) -> None:
    async with Seen(bench.bus, bench.queue, silent_ms=100, beat_ms=60_000, concurrency=1) as seen:
        await asyncio.sleep(0.15)
        seen.release.clear()
        await bench.fill([None])
        await until(lambda: bool(seen.handled), "its hands are full")
        await asyncio.sleep(0.15)
        seen.release.set()
        (job_id,) = await bench.fill([None])
        await until(lambda: job_id in seen.handled, "the next job")
    assert "worker.rebuilt" not in seen.told


async def test_a_renewed_connector_works_and_a_closed_one_stays_closed(start_valkey: Start, queue: str) -> None:
    server = start_valkey()
    bus = await Connector.connect(server.url)
    await bus.renew(queue)
    assert await bus.execute("PING") == b"PONG"
    await bus.close()
    await bus.renew(queue)
    with pytest.raises(Unavailable):
        await bus.execute("PING")
