"""A primary with a replica behind Sentinel: clients follow a failover, and what can be lost is stated and no more."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable

import pytest
from redis.exceptions import RedisError

from codemojex.engine.errors import ConnectionFault, Unavailable, UnknownOutcome, VersionFence
from codemojex.engine.jobs import jobs
from codemojex.engine.jobs.jobs import Enqueued
from codemojex.engine.keyspace import VERSION_KEY
from codemojex.engine.transport.connector import Connector
from tests.engine.bench import Bench
from tests.engine.load import load
from tests.support.topologies import PortServer, ReplicaSet
from tests.support.waiting import until

SOON_S = 8.0  # of which Sentinel takes about two to decide


@pytest.fixture
async def servers() -> AsyncIterator[ReplicaSet]:
    servers = ReplicaSet()
    try:
        yield await servers.start()
    finally:
        servers.close()


async def test_work_goes_on_after_the_primary_died_and_only_unreplicated_writes_are_lost(
    servers: ReplicaSet, connect: Callable[..., object], queue: str
) -> None:
    bus = await connect(servers.url, timeout_s=1.0)
    async with load(bus, queue) as work:
        await work.handles_more(50)
        # Everything that was acknowledged before a write that the replica has confirmed is on the replica.
        admitted = set(work.admitted)
        written, confirmed_by = await bus.pipeline([("SET", f"mark:{{{queue}}}", "1"), ("WAIT", 1, 2000)])
        assert (written, confirmed_by) == (b"OK", 1)
        servers.primary.kill()
        assert await work.handles_more(50, SOON_S + 4) < SOON_S
        may_be_lost = work.admitted - admitted
        done = await work.finish(may_miss=may_be_lost)
        assert servers.replica.port in await _ports(bus)
    lost = work.admitted - set(done)
    assert not lost & admitted, "a replicated write is never lost"
    assert len(lost) < 20, "the window is the replication lag, a moment"
    assert work.refused


async def test_what_the_old_primary_acknowledges_alone_is_lost_and_the_engine_does_not_write_there(
    servers: ReplicaSet, connect: Callable[..., object], queue: str
) -> None:
    bus = await connect(servers.url, timeout_s=0.5)
    pinned = await connect(f"valkey://{servers.primary.address}", timeout_s=5.0)  # does not ask Sentinel
    async with load(bus, queue) as work:
        await work.handles_more(50)
        waiting = asyncio.create_task(bus.blocking("BLPOP", f"nothing:{{{queue}}}", 30, wait_s=30))
        await until(lambda: _waits(servers.primary), "the command waits")
        servers.primary.pause()  # a partition: it lives and nobody hears it
        await servers.failed_over()
        await work.handles_more(50, SOON_S + 4)
        with pytest.raises(UnknownOutcome):  # told at once, not after its half minute
            await asyncio.wait_for(waiting, 10)
        servers.primary.resume()
        alone = Bench(pinned, queue).job()
        assert await jobs.admit(pinned, queue, alone) == Enqueued()
        await work.handles_more(50, SOON_S)
        done = await work.finish(may_miss=work.unknown)
    assert alone.id not in done, "the new primary knows nothing of it"
    assert not work.admitted - set(done)


async def test_a_planned_failover_is_followed_without_a_lost_job(
    servers: ReplicaSet, connect: Callable[..., object], queue: str
) -> None:
    bus = await connect(servers.url, timeout_s=2.0)
    async with load(bus, queue) as work:
        await work.handles_more(50)
        await servers.sentinels[0].do("SENTINEL", "FAILOVER", servers.SERVICE, "COORDINATED")
        await servers.failed_over()
        await work.handles_more(50, 15)
        done = await work.finish()
    assert set(done) >= work.admitted


async def test_a_replica_never_passes_the_fence_of_a_primary(
    servers: ReplicaSet, connect: Callable[..., object]
) -> None:
    bus = await connect(servers.url)
    await bus.execute("SET", "k", "v")
    await servers.primary.do("REPLICAOF", "127.0.0.1", servers.replica.port)
    await servers.primary.do("CLIENT", "KILL", "TYPE", "normal")
    with pytest.raises(ConnectionFault):
        await bus.execute("PING")  # on the socket that was cut
    with pytest.raises(Unavailable):
        await bus.execute("GET", "k")  # a replica would answer it, from the past
    await servers.primary.do("REPLICAOF", "NO", "ONE")
    await until(lambda: _answers(bus), "the primary is back")


async def test_a_sentinel_that_is_gone_or_ignorant_is_passed_over(
    servers: ReplicaSet, connect: Callable[..., object]
) -> None:
    servers.sentinels[0].kill()
    bus = await connect(servers.url)
    assert await bus.execute("PING") == b"PONG"
    with pytest.raises(Unavailable, match="knows no service 'others'"):
        await connect(servers.url.replace("/jobs", "/others"))


async def test_callers_wait_together_and_not_one_after_another_when_nobody_answers(
    servers: ReplicaSet, connect: Callable[..., object]
) -> None:
    bus = await connect(servers.url, timeout_s=0.4)
    everybody = [*servers.sentinels, servers.primary, servers.replica]
    for server in everybody:
        server.pause()
    for _ in range(2):
        begun = time.monotonic()
        answers = await asyncio.gather(*(bus.execute("INCR", "n") for _ in range(25)), return_exceptions=True)
        assert all(isinstance(answer, ConnectionFault) for answer in answers)
        assert time.monotonic() - begun < 8  # one after another: ten
    for server in everybody:
        server.resume()


async def test_the_fence_holds_behind_sentinel(servers: ReplicaSet) -> None:
    await servers.primary.do("SET", VERSION_KEY, "echomq:2.4.2")
    with pytest.raises(VersionFence, match=r"2\.4\.2"):
        await Connector.connect(servers.url)


async def test_a_listener_finds_the_new_primary(servers: ReplicaSet, connect: Callable[..., object]) -> None:
    bus = await connect(servers.url, timeout_s=1.0)
    servers.primary.kill()
    await servers.failed_over()

    async def hears() -> bool:
        client = bus.subscriber().pubsub()
        try:
            await client.subscribe("news")
            assert await client.get_message(timeout=2)
            await servers.replica.do("PUBLISH", "news", "hello")
            return (await client.get_message(timeout=2))["data"] == b"hello"
        except (RedisError, OSError):
            return False
        finally:
            await client.aclose()

    await until(hears, "the message is heard")


async def _waits(server: PortServer) -> bool:
    return b"cmd=blpop" in await server.do("CLIENT", "LIST")


async def _answers(bus: Connector) -> bool:
    try:
        return await bus.execute("GET", "k") == b"v"
    except Unavailable:
        return False


async def _ports(bus: Connector) -> set[int]:
    info = (await bus.execute("INFO", "server")).decode()
    return {int(line.partition(":")[2]) for line in info.splitlines() if line.startswith("tcp_port:")}
