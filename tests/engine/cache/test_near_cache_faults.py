"""The near-cache when Valkey is slow, full, gone or comes back with nothing."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from codemojex.engine import keyspace
from codemojex.engine.cache.circuit_breaker import Circuit
from codemojex.engine.cache.near_cache import Applied, CacheOptions, Read
from codemojex.engine.cache.segmented_lru import Entry, SegmentedLru
from codemojex.engine.errors import ConnectionFault
from codemojex.engine.transport.connector import Connector
from tests.engine.cache.test_near_cache import Open, Truth, processes
from tests.support.valkey import ValkeyServer
from tests.support.waiting import until

QUICK = CacheOptions(grace_ms=600, block_ms=100, l2_timeout_ms=250)


@pytest.fixture
def name() -> str:
    return "".join(random.choices("abcdefghijklmnopqrstuvwxyz", k=16))


@pytest.fixture
def server(start_valkey: Callable[..., ValkeyServer]) -> ValkeyServer:
    return start_valkey()


@pytest.fixture
async def process(server: ValkeyServer) -> AsyncIterator[Open]:
    async with processes(server.url, timeout_s=1.0) as process:
        yield process
        server.resume()


async def test_a_silent_server_costs_freshness_at_most_the_grace_and_never_an_answer(
    process: Open, server: ValkeyServer, name: str
) -> None:
    truth = Truth()
    truth.rows["a"] = (b"one", 1)
    table = await process(name, truth, QUICK)
    await table.get("a")
    server.pause()
    truth.rows["a"] = (b"two", 2)
    await until(lambda: not table.tail.current)
    assert await table.get("a") == Read(b"two", "fill", 2)
    assert table.stats().down >= 1


async def test_nobody_waits_for_a_server_that_is_known_to_be_down(
    process: Open, server: ValkeyServer, name: str
) -> None:
    truth = Truth()
    truth.rows["a"] = (b"one", 1)
    table = await process(name, truth, QUICK)
    server.pause()
    await until(lambda: not table.tail.current)
    for _ in range(3):
        await table.get("a")
    started = time.monotonic()
    for _ in range(50):
        assert (await table.get("a")).source == "fill"
    assert time.monotonic() - started < 8.0  # fifty waits of 250 ms would be more than twelve seconds


async def test_after_an_outage_everybody_hears_what_was_changed_during_it(
    process: Open, server: ValkeyServer, name: str
) -> None:
    truth = Truth()
    truth.rows["a"] = (b"one", 1)
    table, other = await process(name, truth, QUICK), await process(name, truth, QUICK)
    await table.get("a")
    await other.get("a")
    server.pause()
    await until(lambda: not table.tail.current and not other.tail.current)
    truth.rows["a"] = (b"two", 2)
    assert await table.put("a", b"two", 2) == Applied(shared=False)
    assert (await table.get("a")).value == b"two"
    server.resume()
    await until(lambda: table.tail.current and other.tail.current and other.stats().dropped == 1)
    assert (await other.get("a")).value == b"two"
    await until(lambda: not table._owed)


async def test_a_server_that_comes_back_empty_flushes_the_process(
    process: Open, server: ValkeyServer, name: str
) -> None:
    truth = Truth()
    truth.rows["a"] = (b"one", 1)
    table = await process(name, truth, QUICK)
    await table.put("b", b"x", 1)
    await table.get("a")
    flushes = table.stats().flushes
    server.kill()
    server.start()
    await until(lambda: table.stats().flushes > flushes and table.tail.connected.is_set())
    assert table.stats().entries == 0
    truth.rows["a"] = (b"two", 2)
    assert (await table.get("a")).value == b"two"


async def test_a_full_server_passes_everything_through(process: Open, server: ValkeyServer, name: str) -> None:
    truth = Truth()
    truth.rows["a"] = (b"one", 1)
    table = await process(name, truth, QUICK)
    bus = await Connector.connect(server.url)
    try:
        await bus.execute("CONFIG", "SET", "maxmemory", 1)
        for _ in range(5):
            assert (await table.get("a")) == Read(b"one", "fill", 1)
        assert await table.put("a", b"two", 2) == Applied(shared=False)
        await bus.execute("CONFIG", "SET", "maxmemory", 0)
        truth.rows["a"] = (b"two", 2)
        assert (await table.get("a")) == Read(b"two", "fill", 2)
        assert (await table.get("a")).source == "hit"
    finally:
        await bus.close()


async def test_a_table_whose_truth_is_valkey_says_that_it_cannot_answer(
    process: Open, server: ValkeyServer, name: str
) -> None:
    table = await process(name, None, QUICK)
    await table.update("s", lambda old: b"draft")
    server.pause()
    await until(lambda: not table.tail.current)
    for _ in range(5):
        with pytest.raises(ConnectionFault):
            await table.get("s")
        with pytest.raises(ConnectionFault):
            await table.update("s", lambda old: b"other")
        with pytest.raises(ConnectionFault):
            await table.put("s", b"other", 10**15)
    server.resume()
    await until(lambda: table.tail.current)
    assert (await table.get("s")).value in (b"draft", b"other")


async def test_a_cache_starts_without_its_server_and_uses_it_when_it_comes(
    start_valkey: Callable[..., ValkeyServer], name: str
) -> None:
    server = start_valkey()
    async with processes(server.url, timeout_s=1.0) as process:
        table = await process(name, truth := Truth(), QUICK)
        truth.rows["a"] = (b"one", 1)
        server.kill()
        await until(lambda: not table.tail.connected.is_set() and not table.tail.current)
        assert (await table.get("a")).source == "fill"
        server.start()
        await until(lambda: table.tail.current)

        async def hit() -> bool:
            return (await table.get("a")).source == "hit"

        async with asyncio.timeout(10):
            while not await hit():
                await asyncio.sleep(0.02)


async def test_random_changes_by_three_processes_never_leave_an_old_value(process: Open, name: str) -> None:
    """The model: a truth whose rows only get newer. A read may lag, but never behind what the same reader saw."""
    truth = Truth()
    tables = [await process(name, truth, QUICK) for _ in range(3)]
    rng = random.Random(1)
    version = 0
    seen: dict[tuple[int, str], int] = {}

    async def step() -> None:
        nonlocal version
        n, entry_id = rng.randrange(3), rng.choice("abc")
        table = tables[n]
        if rng.random() < 0.3:
            version += 1
            mine = version
            truth.rows[entry_id] = (str(mine).encode(), mine)
            if rng.random() < 0.5:
                await table.put(entry_id, str(mine).encode(), mine)
            else:
                await table.invalidate(entry_id, mine)
            seen[n, entry_id] = max(mine, seen.get((n, entry_id), 0))  # a process reads its own writes
        else:
            before = seen.get((n, entry_id), 0)
            read = await table.get(entry_id)
            got = int(read.value or b"0")
            assert got >= before, (n, entry_id, read)
            seen[n, entry_id] = max(seen.get((n, entry_id), 0), got)

    for _ in range(150):
        await asyncio.gather(*(step() for _ in range(4)))
    lines = [t.tail for t in tables]
    await asyncio.sleep(0.1)
    assert all(tail.current for tail in lines)
    for entry_id in "abc":
        values = [(await t.get(entry_id)).value for t in tables]
        assert values == [truth.rows[entry_id][0]] * 3


def test_a_scan_does_not_push_out_what_is_used() -> None:
    lru: SegmentedLru[int] = SegmentedLru(100, 10**6)
    for n in range(50):
        lru.put(f"hot{n}", Entry(n, 1, 10.0, 1))
        lru.get(f"hot{n}", 0.0)
    for n in range(10_000):
        lru.put(f"scan{n}", Entry(n, 1, 10.0, 1))
    assert all(lru.get(f"hot{n}", 0.0) for n in range(50))
    assert len(lru) == 100


def test_the_bounds_hold_for_any_sequence() -> None:
    rng = random.Random(3)
    lru: SegmentedLru[int] = SegmentedLru(20, 20_000)
    for _ in range(5_000):
        entry_id = f"k{rng.randrange(60)}"
        if rng.random() < 0.5:
            lru.put(entry_id, Entry(1, 1, rng.choice([0.0, 10.0]), rng.randrange(5_000)))
        elif rng.random() < 0.8:
            lru.get(entry_id, 5.0)
        else:
            lru.drop(entry_id)
        assert len(lru) <= 20
        assert 0 <= lru.bytes <= 20_000
    lru.clear()
    assert (len(lru), lru.bytes) == (0, 0)


def test_an_open_circuit_lets_one_probe_through(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr("codemojex.engine.cache.circuit_breaker.time.monotonic", lambda: now)
    circuit = Circuit(threshold=2, open_ms=100, max_open_ms=400)
    circuit.failed()
    assert circuit.allows()
    circuit.failed()
    assert not circuit.allows()
    now += 0.11
    assert [circuit.allows() for _ in range(3)] == [True, False, False]
    circuit.failed()
    now += 0.04
    assert not circuit.allows()
    now += 1
    assert circuit.allows()
    circuit.succeeded()
    assert circuit.closed
    assert all(circuit.allows() for _ in range(3))


def test_the_key_of_an_entry_and_its_log_share_a_slot() -> None:
    prefix: Any = keyspace.cache_prefix("games")
    assert keyspace.slot(prefix + "log") == keyspace.slot(keyspace.cache("games", "x") + "!fill")
