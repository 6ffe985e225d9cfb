"""What the near-cache promises: one load per herd, nothing resurrects, every process hears, degrade and never fail."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from codemojex.engine import ids, keyspace
from codemojex.engine.cache.near_cache import (
    BYTES,
    Applied,
    CacheOptions,
    Loaded,
    NearCache,
    Read,
    Superseded,
    Table,
    struct_codec,
)
from codemojex.engine.errors import Contended, InvalidId, InvalidName, InvalidValue, Unavailable
from codemojex.engine.transport.connector import Connector
from tests.support.waiting import until

PATIENT = CacheOptions(l2_timeout_ms=5_000, load_timeout_ms=10_000)  # a busy machine is no outage
GAME = ids.encode("GAM", 320636799581945856)


@pytest.fixture
def name() -> str:
    return "".join(random.choices("abcdefghijklmnopqrstuvwxyz", k=16))


class Truth:
    """A source of truth that counts its loads and can be held back or broken."""

    def __init__(self) -> None:
        self.rows: dict[str, tuple[bytes, int]] = {}
        self.loads = 0
        self.entered = asyncio.Event()
        self.open = asyncio.Event()
        self.open.set()
        self.fault: Exception | None = None

    async def __call__(self, entry_id: str) -> Loaded[bytes] | None:
        self.loads += 1
        row = self.rows.get(entry_id)  # read before the wait, as a slow query does
        self.entered.set()
        await self.open.wait()
        if self.fault:
            raise self.fault
        return None if row is None else Loaded(*row)


Open = Callable[..., Awaitable[Table[bytes]]]


@asynccontextmanager
async def processes(url: str, timeout_s: float = 5.0) -> AsyncIterator[Open]:
    """Open the same table as often as wanted, each time as a process of its own."""
    async with AsyncExitStack() as stack:

        async def process(
            name: str, truth: Truth | None, options: CacheOptions | None = None, **more: Any
        ) -> Table[bytes]:
            bus = await Connector.connect(url, timeout_s=timeout_s)
            stack.push_async_callback(bus.close)
            cache = await stack.enter_async_context(NearCache(bus))
            table = cache.table(name, codec=BYTES, loader=truth, options=options or PATIENT, **more)
            await cache.connected()
            return table

        yield process


@pytest.fixture
async def process(valkey_url: str) -> AsyncIterator[Open]:
    async with processes(valkey_url) as process:
        yield process


async def test_a_value_is_loaded_once_then_found_in_valkey_then_in_the_process(process: Open, name: str) -> None:
    truth = Truth()
    truth.rows["a"] = (b"one", 1)
    first, second = await process(name, truth), await process(name, truth)
    assert await first.get("a") == Read(b"one", "fill", 1)
    assert await first.get("a") == Read(b"one", "hit", 1)
    assert await second.get("a") == Read(b"one", "l2", 1)
    assert await second.get("a") == Read(b"one", "hit", 1)
    assert truth.loads == 1
    stats = first.stats()
    assert (stats.hits, stats.l2, stats.fills, stats.entries) == (1, 0, 1, 1)
    assert stats.lag_ms < 2_000


async def test_a_herd_in_one_process_loads_once(process: Open, name: str) -> None:
    truth = Truth()
    truth.rows["a"] = (b"one", 1)
    table = await process(name, truth)
    reads = await asyncio.gather(*(table.get("a") for _ in range(200)))
    assert truth.loads == 1
    assert {r.value for r in reads} == {b"one"}
    assert table.stats().coalesced == 199


async def test_a_herd_over_several_processes_loads_once(process: Open, name: str) -> None:
    truth = Truth()
    truth.rows["a"] = (b"one", 1)
    tables = [await process(name, truth) for _ in range(4)]
    truth.open.clear()
    herd = [asyncio.create_task(t.get("a")) for t in tables for _ in range(10)]
    await truth.entered.wait()
    await asyncio.sleep(0.05)
    truth.open.set()
    reads = await asyncio.gather(*herd)
    assert truth.loads == 1
    assert {r.value for r in reads} == {b"one"}


async def test_a_process_that_dies_while_it_loads_holds_others_up_only_for_its_lease(
    process: Open, bus: Connector, name: str
) -> None:
    truth = Truth()
    truth.rows["a"] = (b"one", 1)
    await bus.execute("SET", keyspace.cache_lease(name, "a"), "dead", "PX", 150)
    table = await process(name, truth, replace(PATIENT, fill_lease_ms=150))
    async with asyncio.timeout(8):
        assert (await table.get("a")).value == b"one"


async def test_a_failing_loader_reaches_every_waiter_and_the_next_read_tries_again(process: Open, name: str) -> None:
    truth = Truth()
    truth.rows["a"] = (b"one", 1)
    truth.fault = ValueError("no such table")
    table = await process(name, truth, replace(PATIENT, fill_lease_ms=9_000))
    results = await asyncio.gather(*(table.get("a") for _ in range(5)), return_exceptions=True)
    assert [str(r) for r in results] == ["no such table"] * 5
    truth.fault = None
    async with asyncio.timeout(8):  # the lease was given back
        assert (await table.get("a")).source == "fill"


async def test_a_waiter_that_gives_up_does_not_take_the_load_from_the_others(process: Open, name: str) -> None:
    truth = Truth()
    truth.rows["a"] = (b"one", 1)
    truth.open.clear()
    table = await process(name, truth)
    first, second = asyncio.create_task(table.get("a")), asyncio.create_task(table.get("a"))
    await truth.entered.wait()
    first.cancel()
    truth.open.set()
    assert (await second).value == b"one"


async def test_a_load_without_end_is_given_up(process: Open, name: str) -> None:
    truth = Truth()
    truth.open.clear()
    table = await process(name, truth, replace(PATIENT, load_timeout_ms=50))
    with pytest.raises(Unavailable, match="longer than"):
        await table.get("a")


async def test_what_does_not_exist_is_remembered_for_a_short_time(process: Open, bus: Connector, name: str) -> None:
    truth = Truth()
    table, other = await process(name, truth), await process(name, truth)
    assert await table.get("a") == Read(None, "fill", 0)
    assert await table.get("a") == Read(None, "hit", 0)
    assert await other.get("a") == Read(None, "l2", 0)
    assert truth.loads == 1
    assert 0 < await bus.execute("PTTL", keyspace.cache(name, "a")) <= 10_000
    truth.rows["a"] = (b"born", 1)
    assert await table.put("a", b"born", 1) == Applied()
    assert (await table.get("a")).value == b"born"
    await until(lambda: other.stats().dropped == 1)
    assert (await other.get("a")).value == b"born"


async def test_older_never_beats_newer_in_either_layer(process: Open, name: str) -> None:
    truth = Truth()
    table, other = await process(name, truth), await process(name, truth)
    assert await table.put("a", b"ten", 10) == Applied()
    assert await table.put("a", b"nine", 9) == Superseded()
    assert await table.put("a", b"ten again", 10) == Superseded()
    assert await other.put("a", b"nine", 9) == Superseded()
    assert await other.invalidate("a", 9) == Superseded()
    assert await table.get("a") == Read(b"ten", "hit", 10)
    assert (await other.get("a")).value == b"ten"
    for newer in (10**10, 10**10 + 1, 2**53, 2**53 + 1, 2**63 - 1):
        assert await other.put("a", str(newer).encode(), newer) == Applied()
        assert await table.put("a", b"older", newer - 1) == Superseded()


async def test_a_change_reaches_every_process(process: Open, name: str) -> None:
    truth = Truth()
    truth.rows["a"] = (b"one", 1)
    tables = [await process(name, truth) for _ in range(3)]
    for table in tables:
        await table.get("a")
    truth.rows["a"] = (b"two", 2)
    assert await tables[0].invalidate("a", 2) == Applied()
    await until(lambda: all(t.stats().dropped == 1 for t in tables))
    assert [(await t.get("a")).value for t in tables] == [b"two"] * 3
    truth.rows["a"] = (b"three", 3)
    await tables[1].put("a", b"three", 3)
    await until(lambda: all(t.stats().dropped == 2 for t in tables))
    assert [(await t.get("a")).value for t in tables] == [b"three"] * 3
    assert truth.loads == 2


async def test_a_late_fill_does_not_resurrect_what_was_changed_meanwhile(
    process: Open, bus: Connector, name: str
) -> None:
    truth = Truth()
    truth.rows["a"] = (b"one", 1)
    table, other = await process(name, truth), await process(name, truth)
    truth.open.clear()
    slow = asyncio.create_task(table.get("a"))
    await truth.entered.wait()
    truth.rows["a"] = (b"two", 2)
    await other.invalidate("a", 2)
    truth.open.set()
    assert (await slow).value == b"one"  # served to the one who had asked
    assert table.stats().entries == 0  # and kept nowhere
    assert await table.get("a") == Read(b"two", "fill", 2)
    assert await other.get("a") == Read(b"two", "l2", 2)


async def test_a_late_absence_does_not_hide_what_was_born_meanwhile(process: Open, name: str) -> None:
    truth = Truth()
    table, other = await process(name, truth), await process(name, truth)
    truth.open.clear()
    slow = asyncio.create_task(table.get("a"))
    await truth.entered.wait()
    truth.rows["a"] = (b"born", 1)
    await other.invalidate("a", 1)
    truth.open.set()
    assert (await slow).value is None
    assert (await table.get("a")).value == b"born"


async def test_who_reads_after_an_invalidation_gets_no_answer_from_before(process: Open, name: str) -> None:
    truth = Truth()
    truth.rows["a"] = (b"one", 1)
    table = await process(name, truth)
    truth.open.clear()
    slow = asyncio.create_task(table.get("a"))
    await truth.entered.wait()
    truth.rows["a"] = (b"two", 2)
    await table.invalidate("a", 2)
    later = asyncio.create_task(table.get("a"))
    await until(lambda: truth.loads == 2)
    truth.open.set()
    assert (await slow).value == b"one"
    assert (await later).value == b"two"


async def test_a_deletion_stays_deleted_and_is_cheap_to_read(process: Open, name: str) -> None:
    truth = Truth()
    truth.rows["a"] = (b"one", 1)
    table = await process(name, truth)
    await table.get("a")
    del truth.rows["a"]
    await table.invalidate("a", 2)
    assert (await table.get("a")).value is None
    loads = truth.loads
    assert await table.get("a") == Read(None, "hit", 2)
    assert truth.loads == loads
    assert await table.put("a", b"one", 1) == Superseded()


async def test_a_gap_in_the_log_flushes_the_process(process: Open, bus: Connector, name: str) -> None:
    truth = Truth()
    truth.rows["a"] = (b"one", 1)
    table = await process(name, truth)
    await table.put("b", b"x", 1)
    await table.get("a")
    await until(lambda: table.tail._last[0] > 0)
    flushes, log = table.stats().flushes, f"ecc:{{{name}}}:log"
    birth, _, n = (await bus.execute("XREVRANGE", log, "+", "-", "COUNT", 1))[0][0].decode().partition("-")
    await bus.execute("XADD", log, f"{birth}-{int(n) + 2}", "id", "zzz", "v", "1")
    await until(lambda: table.stats().flushes == flushes + 1)
    assert table.stats().entries == 0
    await bus.execute("DEL", log)
    await table.get("a")
    await table.put("b", b"y", 2)  # the log begins anew
    await until(lambda: table.stats().flushes == flushes + 2)


async def test_the_log_and_every_entry_are_bounded_and_expire(process: Open, bus: Connector, name: str) -> None:
    table = await process(name, Truth(), replace(PATIENT, ttl_s=100))
    await table.put("a", b"one", 1)
    await table.invalidate("b", 1)
    assert 90_000 <= await bus.execute("PTTL", keyspace.cache(name, "a")) <= 100_000
    assert 0 < await bus.execute("PTTL", keyspace.cache(name, "b")) <= 60_000
    assert await bus.execute("PTTL", f"ecc:{{{name}}}:log") > 0


async def test_a_process_stays_within_its_bounds_and_an_overwrite_always_fits(process: Open, name: str) -> None:
    table = await process(name, Truth(), replace(PATIENT, max_entries=5, max_bytes=3_000))
    for n in range(20):
        await table.put(f"k{n}", b"x" * 100, 1)
    stats = table.stats()
    assert (stats.entries, stats.evicted) == (5, 15)
    await table.put("k19", b"y" * 100, 2)
    assert await table.get("k19") == Read(b"y" * 100, "hit", 2)
    await table.put("big", b"z" * 2_500, 1)
    assert table.stats().bytes <= 3_000


async def test_values_above_the_limit_are_refused_on_put_and_passed_through_on_load(process: Open, name: str) -> None:
    truth = Truth()
    truth.rows["a"] = (b"x" * 101, 1)
    table = await process(name, truth, replace(PATIENT, max_value_bytes=100))
    with pytest.raises(InvalidValue, match="too large"):
        await table.put("a", b"x" * 101, 1)
    for _ in range(2):
        assert (await table.get("a")).source == "fill"


async def test_the_process_forgets_no_later_than_valkey(process: Open, bus: Connector, name: str) -> None:
    truth = Truth()
    truth.rows["a"] = (b"one", 1)
    table, other = await process(name, truth), await process(name, truth)
    await table.get("a")
    await bus.execute("PEXPIRE", keyspace.cache(name, "a"), 100)
    assert (await other.get("a")).source == "l2"
    await asyncio.sleep(0.12)
    assert (await other.get("a")).source == "fill"


async def test_a_hot_value_is_refreshed_before_it_expires(process: Open, bus: Connector, name: str) -> None:
    class Slow(Truth):
        async def __call__(self, entry_id: str) -> Loaded[bytes] | None:
            await asyncio.sleep(0.05)
            return await super().__call__(entry_id)

    truth = Slow()
    truth.rows["a"] = (b"one", 1)
    table = await process(name, truth, replace(PATIENT, ttl_s=0.4))
    await table.get("a")
    sources: set[str] = set()
    for _ in range(200):
        sources.add((await table.get("a")).source)
        await asyncio.sleep(0.005)
    assert table.stats().refreshes >= 1
    assert truth.loads >= 2
    assert "hit" in sources


@pytest.mark.parametrize("garbage", [b"", b"nonsense", b"EC1V12", b"EC2V" + b"0" * 36, b"EC1X" + b"0" * 36])
async def test_a_corrupt_frame_is_dropped_and_loaded_again(
    process: Open, bus: Connector, name: str, garbage: bytes
) -> None:
    truth = Truth()
    truth.rows["a"] = (b"one", 1)
    await bus.execute("SET", keyspace.cache(name, "a"), garbage)
    table = await process(name, truth)
    assert await table.get("a") == Read(b"one", "fill", 1)


async def test_a_key_of_another_type_is_replaced(process: Open, bus: Connector, name: str) -> None:
    truth = Truth()
    truth.rows["a"] = (b"one", 1)
    await bus.execute("RPUSH", keyspace.cache(name, "a"), "x")
    table = await process(name, truth)
    assert (await table.get("a")).source == "fill"
    assert await bus.execute("TYPE", keyspace.cache(name, "a")) == b"string"


class Point(msgspec.Struct, frozen=True):
    x: int


async def test_a_payload_that_does_not_decode_is_dropped_and_loaded_again(bus: Connector, name: str) -> None:
    async def loader(entry_id: str) -> Loaded[Point]:
        return Loaded(Point(1), 5)

    async with NearCache(bus) as cache:
        table = cache.table(name, codec=struct_codec(Point), loader=loader)
        await table.get("a")
        head = (await bus.execute("GET", keyspace.cache(name, "a")))[:40]
        await bus.execute("SET", keyspace.cache(name, "a"), head + b"\xc1", "PX", 60_000)
        table.flush()
        assert await table.get("a") == Read(Point(1), "fill", 5)
        assert table.stats().corrupt == 1


async def test_ids_are_checked_before_anything_is_sent(bus: Connector, name: str) -> None:
    async with NearCache(bus) as cache:
        free = cache.table(name, codec=BYTES)
        for bad in ("", "log", "a b", "x" * 65, "a!fill", "é"):
            with pytest.raises(InvalidName):
                await free.get(bad)
        games = cache.table(name + "_g", codec=BYTES, kinds={"GAM", "PLR"})
        for bad in ("a", ids.rebrand(GAME, "JOB"), f"{GAME}:x"):
            with pytest.raises(InvalidId):
                await games.get(bad)
        for good in (GAME, f"{ids.rebrand(GAME, 'PLR')}:{GAME}"):
            assert (await games.get(good)).value is None
        with pytest.raises(InvalidName, match="made once"):
            cache.table(name, codec=BYTES)
        with pytest.raises(InvalidName):
            cache.table("Bad-Name", codec=BYTES)
        for version in (0, -1, 2**63):
            with pytest.raises(InvalidValue):
                await free.put("a", b"", version)


def test_options_out_of_range_are_refused() -> None:
    for bad in ({"ttl_s": 0}, {"grace_ms": 100}, {"max_entries": -1}):
        with pytest.raises(InvalidValue):
            CacheOptions(**bad)  # type: ignore[arg-type]


async def test_outside_of_its_run_a_cache_says_so(bus: Connector, name: str) -> None:
    table = NearCache(bus).table(name, codec=BYTES)
    for _ in range(2):
        with pytest.raises(InvalidValue, match="async with"):
            await table.get("a")


async def test_an_update_is_atomic_over_processes(process: Open, name: str) -> None:
    tables = [await process(name, None) for _ in range(3)]

    def add(old: bytes | None) -> bytes:
        return str(int(old or b"0") + 1).encode()

    await asyncio.gather(*(table.update("s", add) for table in tables for _ in range(8)))
    reads = [await table.update("s", lambda old: old) for table in tables]
    assert {r.value for r in reads} == {b"24"}


async def test_versions_of_updates_grow_by_one_and_deletion_keeps_counting(
    process: Open, bus: Connector, name: str
) -> None:
    table, other = await process(name, None), await process(name, None)
    first = await table.update("s", lambda old: b"one")
    assert (await other.get("s")) == Read(b"one", "l2", first.version)
    second = await table.update("s", lambda old: (old or b"") + b"!")
    assert second == Read(b"one!", "l2", first.version + 1)
    await until(lambda: other.stats().dropped == 1)
    assert (await other.get("s")).value == b"one!"
    gone = await other.update("s", lambda old: None)
    assert (gone.value, gone.version) == (None, first.version + 2)
    assert (await other.get("s")).value is None
    again = await other.update("s", lambda old: b"new" if old is None else b"wrong")
    assert again == Read(b"new", "l2", first.version + 3)
    assert await table.update("never", lambda old: None) == Read(None, "l2", 0)
    await bus.execute("DEL", keyspace.cache(name, "s"))  # as expiry does
    assert (await table.update("s", lambda old: b"later")).version > first.version + 3


async def test_an_update_that_always_loses_says_so(process: Open, name: str) -> None:
    table = await process(name, None)
    version = 1

    class Rival:
        """Writes between every read and swap."""

        def __init__(self, inner: Any) -> None:
            self.inner = inner

        async def write(self, *args: Any, **more: Any) -> Any:
            nonlocal version
            version += 1
            await self.inner.write("s", "put", "V", version=version, ttl_s=60, payload=b"rival")
            return await self.inner.write(*args, **more)

        def __getattr__(self, attribute: str) -> Any:
            return getattr(self.inner, attribute)

    table._l2 = Rival(table._l2)  # type: ignore[assignment]
    with pytest.raises(Contended, match="lost"):
        await table.update("s", lambda old: b"mine")


class Meanwhile:
    """A second layer where something happens between an applied fill and its answer."""

    def __init__(self, inner: Any, happen: Callable[[], Awaitable[None]]) -> None:
        self.inner, self.happen = inner, happen

    async def write(self, entry_id: str, mode: str, *args: Any, **more: Any) -> Any:
        written = await self.inner.write(entry_id, mode, *args, **more)
        if mode == "fill":
            await self.happen()
        return written

    def __getattr__(self, attribute: str) -> Any:
        return getattr(self.inner, attribute)


async def test_a_change_heard_before_the_answer_to_a_fill_keeps_the_fill_out(process: Open, name: str) -> None:
    truth = Truth()
    truth.rows["a"] = (b"one", 1)
    table, other = await process(name, truth), await process(name, truth)

    async def happen() -> None:
        await other.put("a", b"two", 2)
        await until(lambda: "a" not in table._memory.flights)  # heard

    real = table._loads.l2
    table._loads.l2 = Meanwhile(real, happen)  # type: ignore[assignment]
    assert (await table.get("a")).value == b"one"
    assert table.stats().entries == 0
    table._loads.l2 = real
    assert await table.get("a") == Read(b"two", "l2", 2)


async def test_a_flush_during_a_load_keeps_the_load_out(process: Open, name: str) -> None:
    truth = Truth()
    truth.rows["a"] = (b"one", 1)
    table = await process(name, truth)
    truth.open.clear()
    slow = asyncio.create_task(table.get("a"))
    await truth.entered.wait()
    table.flush()
    truth.open.set()
    assert (await slow).value == b"one"
    assert table.stats().entries == 0
