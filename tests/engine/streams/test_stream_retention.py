"""Trimming spares what somebody still needs, and says whom it spared."""

from __future__ import annotations

import pytest

from codemojex.engine import ids, keyspace
from codemojex.engine.clock import ManualClock
from codemojex.engine.errors import InvalidId, InvalidValue
from codemojex.engine.ids import BrandedId, Minter
from codemojex.engine.streams import streams
from codemojex.engine.streams.streams import MaxLen, MinId, Trimmed
from codemojex.engine.transport.connector import Connector

NOW = 1_781_000_000_000


async def fill(bus: Connector, queue: str, n: int) -> list[BrandedId]:
    """One record in each of n milliseconds."""
    clock = ManualClock(NOW)
    mint = Minter(3, clock)
    records: list[BrandedId] = []
    for _ in range(n):
        records.append(mint.mint("EVT"))
        clock.advance(1)
    await streams.append_batch(bus, queue, "s", [streams.NewRecord({"a": "b"}, r) for r in records])
    return records


async def kept(bus: Connector, queue: str) -> list[BrandedId]:
    return [r.id async for r in streams.scan(bus, queue, "s")]


async def test_maxlen_keeps_the_newest(bus: Connector, queue: str) -> None:
    records = await fill(bus, queue, 10)
    assert await streams.trim(bus, queue, "s", MaxLen(4)) == Trimmed(6)
    assert await kept(bus, queue) == records[6:]


async def test_minid_keeps_the_very_millisecond_it_names(bus: Connector, queue: str) -> None:
    records = await fill(bus, queue, 10)
    assert await streams.trim(bus, queue, "s", MinId(NOW + 3)) == Trimmed(3)
    assert await streams.trim(bus, queue, "s", MinId(records[5])) == Trimmed(2)
    assert await kept(bus, queue) == records[5:]


async def test_a_missing_stream_and_bad_windows(bus: Connector, queue: str) -> None:
    assert await streams.trim(bus, queue, "s", MaxLen(4)) == Trimmed(0)
    with pytest.raises(InvalidValue):
        await streams.trim(bus, queue, "s", MaxLen(-1))
    with pytest.raises(InvalidId):
        await streams.trim(bus, queue, "s", MinId(ids.encode("JOB", 5)))


@pytest.mark.parametrize("window", [MaxLen(2), MinId(NOW + 8)])
async def test_what_the_archive_does_not_have_is_kept(bus: Connector, queue: str, window: MaxLen | MinId) -> None:
    records = await fill(bus, queue, 10)
    await streams.set_archived(bus, queue, "s", records[4])
    trimmed = await streams.trim(bus, queue, "s", window)
    assert trimmed == Trimmed(5, "archive", ids.parse(records[5]).stream_id)
    assert await kept(bus, queue) == records[5:]
    await streams.set_archived(bus, queue, "s", records[9])
    assert await streams.trim(bus, queue, "s", window) == Trimmed(3)


@pytest.mark.parametrize("window", [MaxLen(2), MinId(NOW + 8)])
async def test_what_the_slowest_group_has_not_acknowledged_is_kept(
    bus: Connector, queue: str, window: MaxLen | MinId
) -> None:
    records = await fill(bus, queue, 10)
    key = keyspace.of(queue).stream("s")
    for group, read in (("fast", 10), ("slow", 6)):
        await bus.execute("XGROUP", "CREATE", key, group, "0")
        await bus.execute("XREADGROUP", "GROUP", group, "c", "COUNT", read, "STREAMS", key, ">")
        await bus.execute("XACK", key, group, *[ids.parse(r).stream_id for r in records[:read]])
    trimmed = await streams.trim(bus, queue, "s", window)
    assert trimmed == Trimmed(6, "group:slow", ids.parse(records[6]).stream_id)
    assert await kept(bus, queue) == records[6:]


async def test_a_pending_entry_holds_the_stream_from_there_on(bus: Connector, queue: str) -> None:
    records = await fill(bus, queue, 10)
    key = keyspace.of(queue).stream("s")
    await bus.execute("XGROUP", "CREATE", key, "g", "0")
    await bus.execute("XREADGROUP", "GROUP", "g", "c", "COUNT", 10, "STREAMS", key, ">")
    await bus.execute("XACK", key, "g", *[ids.parse(r).stream_id for n, r in enumerate(records) if n != 2])
    assert await streams.trim(bus, queue, "s", MaxLen(0)) == Trimmed(2, "group:g", ids.parse(records[2]).stream_id)
    await bus.execute("XACK", key, "g", ids.parse(records[2]).stream_id)
    assert await streams.trim(bus, queue, "s", MaxLen(0)) == Trimmed(8)


async def test_force_trims_whoever_needs_it(bus: Connector, queue: str) -> None:
    records = await fill(bus, queue, 10)
    await streams.set_archived(bus, queue, "s", records[0])
    await bus.execute("XGROUP", "CREATE", keyspace.of(queue).stream("s"), "g", "0")
    assert await streams.trim(bus, queue, "s", MaxLen(1), force=True) == Trimmed(9)


async def test_without_a_watermark_nothing_goes_where_one_is_required(bus: Connector, queue: str) -> None:
    records = await fill(bus, queue, 3)
    trimmed = await streams.trim(bus, queue, "s", MaxLen(0), require_archived=True)
    assert trimmed == Trimmed(0, "archive", ids.parse(records[0]).stream_id)


async def test_a_long_guarded_trim_goes_on_until_it_is_done(bus: Connector, queue: str) -> None:
    records = await fill(bus, queue, 5_000)
    await streams.set_archived(bus, queue, "s", records[-1])
    assert await streams.trim(bus, queue, "s", MaxLen(1)) == Trimmed(4_999)
    assert await kept(bus, queue) == records[-1:]


async def test_the_watermark_is_set_overwritten_and_cleared(bus: Connector, queue: str) -> None:
    first, second = ids.encode("EVT", 1 << 40), ids.encode("EVT", 1 << 41)
    assert await streams.get_archived(bus, queue, "s") is None
    for watermark in (second, first):
        await streams.set_archived(bus, queue, "s", watermark)
        assert await streams.get_archived(bus, queue, "s") == watermark
    assert await bus.execute("PTTL", keyspace.of(queue).archived("s")) > 0
    with pytest.raises(InvalidId):
        await streams.set_archived(bus, queue, "s", ids.encode("JOB", 5))
    await streams.clear_archived(bus, queue, "s")
    assert await streams.get_archived(bus, queue, "s") is None
