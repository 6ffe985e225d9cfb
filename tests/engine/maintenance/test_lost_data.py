"""A server that loses its data under running processes: what the engine keeps there comes back by itself."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest

from codemojex.engine import keyspace
from codemojex.engine.jobs import registry
from codemojex.engine.jobs.jobs import Job
from codemojex.engine.jobs.outcome import Delay, Outcome
from codemojex.engine.lanes import lanes
from codemojex.engine.nodes.node_lease import NodeLease
from codemojex.engine.streams.consumer import GroupOptions, GroupReader
from codemojex.engine.streams.record import Record
from codemojex.engine.transport.connector import Connector
from codemojex.engine.worker.worker import Worker, WorkerOptions
from tests.engine.bench import Bench, lane, running
from tests.engine.cache.test_near_cache import Truth, processes
from tests.engine.cache.test_near_cache_faults import QUICK
from tests.support.valkey import ValkeyServer
from tests.support.waiting import until


@pytest.fixture
def server(start_valkey: Callable[..., ValkeyServer]) -> ValkeyServer:
    return start_valkey()


@pytest.fixture
async def alone(server: ValkeyServer, queue: str) -> AsyncIterator[Bench]:
    """A queue on a server that the test may flush."""
    bus = await Connector.connect(server.url)
    yield Bench(bus, queue)
    await bus.close()


async def test_a_worker_keeps_the_order_of_a_lane_on_a_server_without_any_setting(alone: Bench) -> None:
    running_now, most, seen = 0, 0, list[str]()
    again = True

    async def handle(job: Job) -> Outcome | None:
        nonlocal running_now, most, again
        running_now += 1
        most = max(most, running_now)
        await asyncio.sleep(0.01)
        running_now -= 1
        seen.append(job.id)
        if again:
            again = False
            return Delay(20)  # it comes back to a lane that may have been idle meanwhile
        return None

    options = WorkerOptions(concurrency=8, lane_limit=1)
    async with running(Worker(alone.bus, alone.queue, handle, options=options)):
        await alone.bus.execute("FLUSHALL")
        made = await alone.fill([lane(1)] * 20)
        await until(lambda: len(seen) == 21)
    assert most == 1
    assert seen[0] == made[0]
    assert [i for i in seen[1:] if i != made[0]] == made[1:]


async def test_the_processes_of_a_server_without_data_keep_their_numbers_apart(alone: Bench) -> None:
    async with NodeLease(alone.bus) as one, NodeLease(alone.bus) as two:
        numbers = [one.node, two.node]
        await alone.bus.execute("FLUSHALL")
        await two.renew()
        await one.renew()
        assert [one.node, two.node] == numbers


async def test_a_queue_is_noted_again(alone: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    await alone.fill([None])
    await alone.bus.execute("FLUSHALL")
    await alone.fill([None])
    assert await registry.queues(alone.bus) == [], "one note a minute"
    monkeypatch.setattr(registry, "_AGAIN_S", 0.0)
    await alone.fill([None])
    assert await registry.queues(alone.bus) == [alone.queue]


async def test_a_group_reads_a_stream_that_began_again_from_its_first_record(alone: Bench) -> None:
    seen: list[str] = []

    async def handle(records: list[Record]) -> None:
        seen.extend(record.text("n") for record in records)

    options = GroupOptions(block_ms=100, retry_base_ms=10)
    reader = GroupReader(alone.bus, alone.queue, "s", "g", "c", handle, options=options)
    key = keyspace.of(alone.queue).stream("s")
    work = asyncio.get_running_loop().create_task(reader.run())
    try:
        await alone.bus.execute("XADD", key, "9000000000000-0", "n", "before")
        await until(lambda: seen == ["before"])
        await alone.bus.execute("FLUSHALL")
        # Below the last one: the new server's clock is behind.
        await alone.bus.execute("XADD", key, "8000000000000-0", "n", "after")
        await until(lambda: seen == ["before", "after"])
    finally:
        reader.stop()
        await work


async def test_what_a_process_keeps_near_goes_with_the_servers_data(server: ValkeyServer, alone: Bench) -> None:
    async with processes(server.url, timeout_s=1.0) as process:
        truth = Truth()
        truth.rows["a"] = (b"one", 1)
        table = await process("lost", truth, QUICK)
        await table.put("b", b"x", 1)
        await table.get("a")
        await alone.bus.execute("FLUSHALL")
        truth.rows["a"] = (b"two", 2)
        await until(lambda: table.stats().entries == 0)
        assert (await table.get("a")).value == b"two"


async def test_a_lane_that_was_in_flight_when_the_data_went_is_served_again(alone: Bench) -> None:
    await lanes.limit(alone.bus, alone.queue, lane(1), 1)
    await alone.fill([lane(1)])
    (lost,) = await alone.take()
    await alone.bus.execute("FLUSHALL")
    (new,) = await alone.fill([lane(1)])
    assert [job.id for job in (await alone.claim(5, lane_limit=1)).jobs] == [new]
    await alone.settle(lost)
    await alone.sound()
