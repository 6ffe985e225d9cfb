"""Appending, reading and bounds of event streams."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest

from codemojex.engine import ids, keyspace
from codemojex.engine.clock import ManualClock
from codemojex.engine.errors import InvalidId, InvalidName, InvalidValue, ServerFull, UnknownOutcome
from codemojex.engine.ids import Minter
from codemojex.engine.streams import streams
from codemojex.engine.streams.streams import AppendConflict, Appended, AppendFailed, NewRecord, Nonmonotonic
from codemojex.engine.transport.connector import Connector

NOW = 1_781_000_000_000


@pytest.fixture
def mint() -> Minter:
    return Minter(7, ManualClock(NOW))


class Lossy:
    """A connector whose answers get lost: the script runs, and the caller hears nothing."""

    def __init__(self, bus: Connector, losses: int, before: bool = False) -> None:
        self.bus, self.losses, self.before = bus, losses, before

    async def run(self, *args: Any) -> Any:
        reply = None if self.before else await self.bus.run(*args)
        if self.losses:
            self.losses -= 1
            raise UnknownOutcome("the answer was lost")
        return await self.bus.run(*args) if self.before else reply

    def __getattr__(self, name: str) -> Any:
        return getattr(self.bus, name)


def lossy(bus: Connector, losses: int, before: bool = False) -> Connector:
    return cast(Connector, Lossy(bus, losses, before))


async def test_mint_order_is_id_order_is_stream_order(bus: Connector, queue: str, mint: Minter) -> None:
    appended = [await streams.append(bus, queue, "s", {"n": str(n)}, mint) for n in range(10)]
    records = await streams.read(bus, queue, "s")
    assert [r.id for r in records] == appended == sorted(appended)
    assert [r.text("n") for r in records] == [str(n) for n in range(10)]
    assert all(ids.parse(r.id).stream_id == r.stream_id for r in records)


async def test_the_first_field_is_the_id_and_it_is_not_repeated_in_what_is_read(
    bus: Connector, queue: str, mint: Minter
) -> None:
    appended = await streams.append(bus, queue, "s", {"kind": "k", "raw": b"\xff\x00"}, mint)
    [(_, pairs)] = await bus.execute("XRANGE", keyspace.of(queue).stream("s"), "-", "+")
    assert pairs[:2] == [b"id", appended.encode()]
    [record] = await streams.read(bus, queue, "s")
    assert record.fields == {"kind": b"k", "raw": b"\xff\x00"}


@pytest.mark.parametrize("bad", ["ORD000xY9Wvvcd", "not-branded", "EVTzzzzzzzzzzz"])
async def test_an_id_that_is_no_event_is_refused_and_no_key_appears(bus: Connector, queue: str, bad: str) -> None:
    with pytest.raises(InvalidId):
        await streams.append_id(bus, queue, "s", bad, {"a": "b"})
    assert await bus.execute("EXISTS", keyspace.of(queue).stream("s")) == 0


async def test_bad_names_fields_and_sizes_are_refused_before_anything_is_sent(
    bus: Connector, queue: str, mint: Minter
) -> None:
    with pytest.raises(InvalidName):
        await streams.append(bus, queue, "a:b", {"a": "b"}, mint)
    for fields in ({}, {"id": "x"}, {"a": "x" * 65_536}, {f"f{n}": "" for n in range(300)}):
        with pytest.raises(InvalidValue):
            await streams.append(bus, queue, "s", fields, mint)
    with pytest.raises(InvalidValue, match="minter"):
        await streams.append_batch(bus, queue, "s", [{"a": "b"}])
    with pytest.raises(InvalidValue):
        await streams.read(bus, queue, "s", count=0)
    assert await bus.execute("EXISTS", keyspace.of(queue).stream("s")) == 0


async def test_the_same_record_twice_is_stored_once_and_other_content_is_a_conflict(bus: Connector, queue: str) -> None:
    record = ids.encode("EVT", 209715201620567)
    assert await streams.append_id(bus, queue, "s", record, {"a": "1"}) == Appended(record)
    assert await streams.append_id(bus, queue, "s", record, {"a": "1"}) == Appended(record, repeated=True)
    assert await streams.append_id(bus, queue, "s", record, {"a": "2"}) == AppendConflict(record)
    [stored] = await streams.read(bus, queue, "s")
    assert (stored.stream_id, stored.fields) == ("1704117200000-1620567", {"a": b"1"})


async def test_an_id_behind_the_stream_is_nonmonotonic_and_nothing_is_stored(
    bus: Connector, queue: str, mint: Minter
) -> None:
    early, late = mint.mint("EVT"), mint.mint("EVT")
    await streams.append_id(bus, queue, "s", late, {"a": "1"})
    verdict = await streams.append_id(bus, queue, "s", early, {"a": "1"})
    assert verdict == Nonmonotonic(early, ids.parse(late).stream_id)
    assert len(await streams.read(bus, queue, "s")) == 1


async def test_a_writer_whose_clock_is_behind_gets_its_record_in_with_a_fresh_id(
    bus: Connector, queue: str, mint: Minter
) -> None:
    ahead = await streams.append(bus, queue, "s", {"who": "ahead"}, Minter(9, ManualClock(NOW + 60_000)))
    behind = await streams.append(bus, queue, "s", {"who": "behind"}, mint)
    assert behind > ahead
    assert await streams.append(bus, queue, "s", {"who": "next"}, mint) > behind


async def test_several_writers_lose_nothing_and_repeat_nothing(bus: Connector, queue: str) -> None:
    clocks = [ManualClock(NOW + skew) for skew in (0, 40, 5_000)]

    async def write(node: int, clock: ManualClock) -> None:
        minter = Minter(node, clock)
        for n in range(40):
            clock.advance(1)
            await streams.append(bus, queue, "s", {"n": f"{node}:{n}"}, minter)

    await asyncio.gather(*(write(node, clock) for node, clock in enumerate(clocks)))
    records = await streams.read(bus, queue, "s", count=1000)
    assert len(records) == 120
    assert len({r.text("n") for r in records}) == 120
    for node in range(3):
        own = [r.text("n") for r in records if r.text("n").startswith(f"{node}:")]
        assert own == [f"{node}:{n}" for n in range(40)]


async def test_a_batch_answers_for_every_record(bus: Connector, queue: str, mint: Minter) -> None:
    early, taken = mint.mint("EVT"), mint.mint("EVT")
    await streams.append_id(bus, queue, "s", taken, {"a": "1"})
    fresh = mint.mint("EVT")
    verdicts = await streams.append_batch(
        bus,
        queue,
        "s",
        [
            NewRecord({"a": "1"}, early),
            NewRecord({"a": "1"}, taken),
            NewRecord({"a": "2"}, taken),
            NewRecord({"a": "3"}, fresh),
        ],
    )
    behind = Nonmonotonic(early, ids.parse(taken).stream_id)
    assert verdicts == [behind, Appended(taken, repeated=True), AppendConflict(taken), Appended(fresh)]


async def test_a_batch_that_is_behind_keeps_its_order_under_fresh_ids(bus: Connector, queue: str, mint: Minter) -> None:
    await streams.append(bus, queue, "s", {"n": "-"}, Minter(9, ManualClock(NOW + 60_000)))
    verdicts = await streams.append_batch(bus, queue, "s", [{"n": str(n)} for n in range(300)], mint)
    assert all(isinstance(v, Appended) and not v.repeated for v in verdicts)
    records = [r async for r in streams.scan(bus, queue, "s", page=70)]
    assert [r.text("n") for r in records] == ["-", *map(str, range(300))]
    assert [r.id for r in records[1:]] == [v.id for v in verdicts]


@pytest.mark.parametrize("before", [False, True], ids=["it had run", "it had not run"])
async def test_a_lost_answer_never_yields_a_duplicate(bus: Connector, queue: str, mint: Minter, before: bool) -> None:
    verdicts = await streams.append_batch(lossy(bus, 2, before), queue, "s", [{"n": str(n)} for n in range(5)], mint)
    assert verdicts == [Appended(v.id, repeated=not before) for v in verdicts]
    assert [r.text("n") for r in await streams.read(bus, queue, "s")] == list("01234")


async def test_an_answer_that_never_comes_is_an_unknown_outcome_and_safe_to_repeat(
    bus: Connector, queue: str, mint: Minter, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def no_pause(attempt: int) -> None: ...

    monkeypatch.setattr(streams, "_pause", no_pause)
    [verdict] = await streams.append_batch(lossy(bus, 99), queue, "s", [{"n": "1"}], mint)
    assert isinstance(verdict, AppendFailed)
    assert isinstance(verdict.error, UnknownOutcome)
    assert await streams.append_id(bus, queue, "s", verdict.id, {"n": "1"}) == Appended(verdict.id, repeated=True)


async def test_a_lost_record_that_was_trimmed_meanwhile_is_not_written_again(
    bus: Connector, queue: str, mint: Minter
) -> None:
    class TrimsMeanwhile(Lossy):
        async def run(self, *args: Any) -> Any:
            try:
                return await super().run(*args)
            except UnknownOutcome:
                key = keyspace.of(queue).stream("s")
                await self.bus.execute("XADD", key, f"{NOW + 5}-0", "other", "writer")
                await self.bus.execute("XTRIM", key, "MAXLEN", "=", 1)
                raise

    with pytest.raises(UnknownOutcome, match="trimmed"):
        await streams.append(cast(Connector, TrimsMeanwhile(bus, 1)), queue, "s", {"n": "1"}, mint)
    assert await bus.execute("XLEN", keyspace.of(queue).stream("s")) == 1


async def test_a_lost_record_that_never_arrived_gets_a_fresh_id_when_others_went_ahead(
    bus: Connector, queue: str, mint: Minter
) -> None:
    class OthersWrite(Lossy):
        async def run(self, *args: Any) -> Any:
            try:
                return await super().run(*args)
            except UnknownOutcome:
                await self.bus.execute("XADD", keyspace.of(queue).stream("s"), f"{NOW + 5}-0", "other", "writer")
                raise

    appended = await streams.append(cast(Connector, OthersWrite(bus, 1, before=True)), queue, "s", {"n": "1"}, mint)
    assert ids.parse(appended).unix_ms > NOW + 5
    assert await bus.execute("XLEN", keyspace.of(queue).stream("s")) == 2


async def test_a_full_server_is_named_in_the_verdict(start_valkey: Any, queue: str, mint: Minter) -> None:
    bus = await Connector.connect(start_valkey().url)
    try:
        await bus.execute("CONFIG", "SET", "maxmemory", 1)
        with pytest.raises(ServerFull):
            await streams.append(bus, queue, "s", {"a": "1"}, mint)
    finally:
        await bus.close()


@pytest.mark.parametrize(
    ("instant", "low", "snowflake", "branded"),
    [
        (datetime(2025, 3, 1, 12, 0, 0, 500_000, UTC), "1740830400500-0", 154196038909952000, "EVT0BODbjai1b6"),
        (datetime(2025, 5, 1, 9, tzinfo=UTC), "1746090000000-0", None, "EVT0D1FsjI1lz6"),
        (datetime(2025, 6, 10, 6, 30, tzinfo=UTC), "1749537000000-0", None, "EVT0E5TJo0bIBs"),
    ],
)
def test_the_bounds_of_an_instant(instant: datetime, low: str, snowflake: int | None, branded: str) -> None:
    assert streams.floor(instant) == low
    assert streams.ceil(instant) == low.removesuffix("-0") + "-4194303"
    lowest = ids.min_for(int(low.removesuffix("-0")))
    assert snowflake in (None, lowest)
    assert ids.encode("EVT", lowest) == branded
    assert streams.floor(instant + timedelta(microseconds=999)) == low


def test_an_instant_without_a_zone_or_before_1970_is_refused() -> None:
    with pytest.raises(InvalidValue, match="zone"):
        streams.floor(datetime(2025, 1, 1))
    with pytest.raises(InvalidValue, match="1970"):
        streams.floor(-1)


async def test_a_window_is_closed_at_both_ends_to_the_millisecond(bus: Connector, queue: str) -> None:
    clock = ManualClock(NOW)
    mint = Minter(1023, clock)
    by_ms: dict[int, list[str]] = {}
    for ms in range(6):
        by_ms[ms] = [await streams.append(bus, queue, "s", {"ms": str(ms)}, mint) for _ in range(3)]
        clock.advance(1)
    window = await streams.read_window(bus, queue, "s", NOW + 1, NOW + 3)
    assert [r.id for r in window] == by_ms[1] + by_ms[2] + by_ms[3]
    assert [r.id for r in await streams.read_window(bus, queue, "s", NOW + 2, NOW + 2)] == by_ms[2]
    assert [r.id for r in await streams.read_since(bus, queue, "s", NOW + 4)] == by_ms[4] + by_ms[5]
    with pytest.raises(InvalidValue, match="before it begins"):
        await streams.read_window(bus, queue, "s", NOW + 3, NOW + 1)


async def test_a_foreign_entry_is_read_under_the_id_of_its_place(bus: Connector, queue: str) -> None:
    key = keyspace.of(queue).stream("s")
    await bus.execute("XADD", key, "5-1", "a", "far too old")
    await bus.execute("XADD", key, "1781000000010-28672", "id", "nonsense", "a", "b")
    old, foreign = await streams.read(bus, queue, "s")
    assert ids.is_valid(old.id)
    assert (foreign.id, foreign.fields) == ("EVT0NpsIRaFoki", {"a": b"b"})


async def test_a_batch_of_which_only_the_head_is_behind_keeps_its_order(
    bus: Connector, queue: str, mint: Minter
) -> None:
    await bus.execute("XADD", keyspace.of(queue).stream("s"), f"{NOW}-{7 << 12 | 5}", "n", "-")
    verdicts = await streams.append_batch(bus, queue, "s", [{"n": str(n)} for n in range(20)], mint)
    assert all(isinstance(v, Appended) and not v.repeated for v in verdicts)
    assert [r.text("n") for r in await streams.read(bus, queue, "s")] == ["-", *map(str, range(20))]


async def test_a_minted_id_that_somebody_else_has_used_is_replaced_and_the_batch_keeps_its_order(
    bus: Connector, queue: str, mint: Minter
) -> None:
    """Two processes with one node number: no record is taken for stored that is not."""
    other, stranger = Minter(7, ManualClock(NOW)), {"by": "somebody else"}
    await streams.append_batch(bus, queue, "s", [stranger] * 2, other)
    first = await streams.append(bus, queue, "s", {"n": "0"}, mint)
    verdicts = await streams.append_batch(bus, queue, "s", [stranger] * 2, other)
    mine = await streams.append_batch(bus, queue, "s", [{"n": "1"}, {"n": "2"}], mint)
    assert all(isinstance(verdict, Appended) for verdict in [*verdicts, *mine])
    found = {record.id: record.text("n") for record in await streams.read(bus, queue, "s")}
    assert (found[first], [found[verdict.id] for verdict in mine]) == ("0", ["1", "2"])
    assert [n for n in found.values() if n] == ["0", "1", "2"]
