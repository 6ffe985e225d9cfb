"""One server in trouble: workers wait it out and go on by themselves, and no admitted job is lost or done twice."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from codemojex.engine.errors import ServerFull, Unavailable, UnknownOutcome
from codemojex.engine.jobs import jobs
from codemojex.engine.jobs.effects import Effect
from codemojex.engine.jobs.outcome import Complete, Retry
from codemojex.engine.jobs.settlement import Settlement, settle_and_claim, settle_many
from codemojex.engine.transport.connector import Connector
from tests.engine.bench import LEASE, Bench, lane
from tests.engine.load import RAN, load, ran_key
from tests.support.topologies import PortServer
from tests.support.valkey import ValkeyServer
from tests.support.waiting import until

Start = Callable[..., ValkeyServer]
SOON_S = 6.0  # how long workers may take to resume on a busy machine


async def test_a_crash_and_restart_with_aof_loses_no_admitted_job(
    start_valkey: Start, connect: Callable[..., object], queue: str
) -> None:
    server = start_valkey("--appendfsync", "everysec", aof=True)
    bus = await connect(server.url, timeout_s=1.0)
    async with load(bus, queue) as work:
        await work.handles_more(50)
        for _ in range(2):
            server.kill()
            before = len(work.refused), len(work.faults)
            await until(lambda before=before: len(work.refused) > before[0], "an admission was refused")
            await until(lambda before=before: len(work.faults) > before[1], "a worker met the fault")
            server.start()
            assert await work.handles_more(50, SOON_S) < SOON_S
        done = await work.finish()
    assert set(done) >= work.admitted


async def test_scripts_flushed_again_and_again_are_taught_again_and_nobody_notices(
    start_valkey: Start, connect: Callable[..., object], queue: str
) -> None:
    bus = await connect(start_valkey().url)
    async with load(bus, queue) as work:
        for _ in range(40):
            await bus.execute("SCRIPT", "FLUSH")
            await asyncio.sleep(0.02)
        await work.handles_more(20)
        done = await work.finish()
    assert set(done) == work.admitted == set(work.handled)
    assert set(work.handled.values()) == {1}
    assert not work.unknown
    assert not work.refused


async def test_a_full_server_refuses_with_a_clear_error_and_work_goes_on_when_there_is_room(
    start_valkey: Start, connect: Callable[..., object], queue: str
) -> None:
    bus = await connect(start_valkey().url)
    async with load(bus, queue) as work:
        await work.handles_more(50)
        await bus.execute("CONFIG", "SET", "maxmemory", 1)
        await until(lambda: work.full > 5, "admissions were refused")
        with pytest.raises(ServerFull, match="free memory or raise maxmemory"):
            await jobs.admit(bus, queue, work.bench.job(lane=lane(1)))
        await bus.execute("CONFIG", "SET", "maxmemory", 0)
        assert await work.handles_more(50, SOON_S) < SOON_S
        done = await work.finish()
    assert set(done) == work.admitted
    assert not work.unknown


async def test_a_server_that_stalls_for_five_seconds_delays_work_and_loses_none(
    start_valkey: Start, connect: Callable[..., object], queue: str
) -> None:
    server = start_valkey()
    bus = await connect(server.url, timeout_s=1.0)
    async with load(bus, queue) as work:
        await work.handles_more(50)
        server.pause()
        stalled = time.monotonic()
        while time.monotonic() < stalled + 5:
            await asyncio.sleep(0.1)
        server.resume()
        assert await work.handles_more(50, SOON_S) < SOON_S
        done = await work.finish()
    assert work.unknown, "what was on the way is reported as unknown"
    assert set(done) >= work.admitted


async def test_a_primary_that_lost_its_replica_takes_no_writes_and_charges_no_job(
    connect: Callable[..., object], queue: str
) -> None:
    primary, replica = PortServer("--min-replicas-to-write", "1", "--repl-diskless-sync-delay", "0"), PortServer()
    try:
        primary.start()
        replica.start()
        await replica.do("REPLICAOF", "127.0.0.1", primary.port)
        await until(lambda: _has_replica(primary), "the replica follows")
        bench = Bench(await connect(primary.url), queue)
        await bench.fill([lane(1)] * 2)
        (job,) = await bench.take()
        replica.kill()
        await until(lambda: _has_no_replica(primary), "the replica is missed")
        with pytest.raises(Unavailable, match="NOREPLICAS"):
            await jobs.admit(bench.bus, queue, bench.job())
        with pytest.raises(Unavailable, match="NOREPLICAS"):
            await settle_and_claim(bench.bus, queue, [Settlement(job.id, job.token, Retry("no"))], 1, LEASE)
        with pytest.raises(Unavailable, match="NOREPLICAS"):
            await settle_many(bench.bus, queue, [Settlement(job.id, job.token, Retry("no"))])
        assert (await bench.row(job.id))["state"] == "active"
        await primary.do("CONFIG", "SET", "min-replicas-to-write", 0)
        await bench.settle(job)
        await bench.sound()
    finally:
        primary.close()
        replica.close()


@pytest.mark.parametrize("code", ["READONLY", "MISCONF"])
async def test_settlements_sent_to_a_server_that_is_demoted_or_cannot_save_charge_no_job(
    start_valkey: Start, connect: Callable[..., object], queue: str, code: str
) -> None:
    server = start_valkey()
    bench = Bench(await connect(server.url), queue)
    await bench.fill([lane(1), None])
    one, two = await bench.take(2)
    if code == "READONLY":
        await bench.bus.execute("REPLICAOF", "127.0.0.1", 1)
    else:
        await _cannot_save(bench.bus)
    items = [Settlement(one.id, one.token, Retry("no")), Settlement(two.id, two.token, Retry("no"))]
    with pytest.raises(Unavailable, match=code):
        await settle_and_claim(bench.bus, queue, items, 1, LEASE)
    with pytest.raises(Unavailable, match=code):
        await settle_many(bench.bus, queue, items)
    effect = Effect("ran", (ran_key(queue),), (one.id,))
    with pytest.raises(Unavailable, match=code):
        await settle_many(bench.bus, queue, [Settlement(one.id, one.token, Complete(effect=effect))], effects=(RAN,))
    with pytest.raises(Unavailable, match=code):
        await jobs.admit_many(bench.bus, queue, [bench.job()])
    await bench.bus.execute(*(("REPLICAOF", "NO", "ONE") if code == "READONLY" else ("CONFIG", "SET", "save", "")))
    assert (await bench.row(one.id)).get("failures") is None
    await bench.sound()


async def test_a_listener_hears_that_its_answer_is_lost(start_valkey: Start, connect: Callable[..., object]) -> None:
    server = start_valkey()
    bus = await connect(server.url, timeout_s=0.5)
    waiting = asyncio.create_task(bus.blocking("BLPOP", "k", 0.5, wait_s=0.5))
    await until(lambda: _blocked(bus), "the command waits")
    server.pause()
    with pytest.raises(UnknownOutcome):
        await waiting
    server.resume()


async def _cannot_save(bus: Connector) -> None:
    """A directory stands where the server's dump belongs."""
    (place,) = (await bus.execute("CONFIG", "GET", "dir")).values()
    Path(place.decode(), "dump.rdb").mkdir()
    await bus.execute("CONFIG", "SET", "save", "900 1")
    await bus.execute("BGSAVE")

    async def failed() -> bool:
        return b"rdb_last_bgsave_status:err" in await bus.execute("INFO", "persistence")

    await until(failed, "the dump fails")


async def _has_replica(primary: PortServer) -> bool:
    return b"connected_slaves:1" in await primary.do("INFO", "replication") and b"min_slaves_good_slaves:1" in (
        await primary.do("INFO", "replication")
    )


async def _has_no_replica(primary: PortServer) -> bool:
    return b"min_slaves_good_slaves:0" in await primary.do("INFO", "replication")


async def _blocked(bus: Connector) -> bool:
    return b"blocked_clients:1" in await bus.execute("INFO", "clients")
