"""The commands of event streams called by themselves: each reply, and what stays behind."""

from __future__ import annotations

import pytest

from codemojex.engine import ids
from codemojex.engine.scripts import ENGINE
from tests.engine.bench import Bench


@pytest.mark.parametrize(("deleted", "certain"), [(5, b"1"), (8, b"0")])
async def test_a_record_behind_was_certainly_never_here_if_none_went_at_or_after_its_place(
    bench: Bench, deleted: int, certain: bytes
) -> None:
    for place in (5, 6, 8, 9):
        await bench.raw("XADD", "stream:s", f"{place}-0", "id", place)
    assert await append(bench, ("7-0", "given", "id", "x")) == [[b"behind", b"9-0", b"1"]]
    await bench.raw("XDEL", "stream:s", f"{deleted}-0")
    assert await append(bench, ("7-0", "given", "id", "x")) == [[b"behind", b"9-0", certain]]
    await bench.raw("XTRIM", "stream:s", "MINID", "9")
    assert await append(bench, ("7-0", "given", "id", "x")) == [[b"behind", b"9-0", b"0"]]


async def test_a_record_is_repeated_only_when_every_field_is_the_same(bench: Bench) -> None:
    there = ("5-0", "given", "id", "a", "n", "1")
    other = [("5-0", "given", "id", "a"), (*there, "m", "2"), (*there[:-1], "2"), (*there[:-2], "m", "1")]
    other += [("5-0", "given", "ID", "a", "n", "1"), ("5-0", "given", "id", "b", "n", "1")]
    assert await append(bench, there, there, *other) == [[b"appended"], [b"repeated"], *[[b"conflict"]] * 6]


async def test_after_an_error_the_minted_records_wait_and_the_given_ones_are_tried(bench: Bench) -> None:
    await bench.raw("SET", "stream:s", "no stream")
    records = [("5-0", origin, "id", "a") for origin in ("given", "minted", "minted", "given")]
    codes = [reply[0] for reply in await append(bench, *records)]
    assert codes == [b"error", b"error", b"untried", b"error"]
    await bench.raw("DEL", "stream:s")
    codes = [reply[0] for reply in await append(bench, ("6-0", "minted", "id", "a"), *records)]
    assert codes == [b"appended", b"behind", b"behind", b"untried", b"behind"]


async def test_a_minted_record_whose_place_is_taken_holds_the_minted_ones_behind_it_back(bench: Bench) -> None:
    await append(bench, ("5-0", "given", "id", "a"))
    last = ("6-0", "minted", "id", "b")
    assert await append(bench, ("5-0", "minted", "id", "x"), last) == [[b"conflict"], [b"untried"]]
    assert await append(bench, ("5-0", "given", "id", "x"), last) == [[b"conflict"], [b"appended"]]
    assert await append(bench, ("6-0", "minted", "id", "b"), ("7-0", "minted", "id", "c")) == [
        [b"repeated"],
        [b"appended"],
    ]


async def append(bench: Bench, *records: tuple[str, ...]) -> list[list[bytes]]:
    """Append records (stream id, origin, then names and values)."""
    args = [part for place, origin, *pairs in records for part in (place, origin, len(pairs), *pairs)]
    return await bench.bus.run(ENGINE.script("stream_append"), (bench.space.stream("s"),), args)


async def test_a_quarantined_entry_is_named_by_its_new_id_and_a_trimmed_one_by_none(bench: Bench) -> None:
    names = (bench.space.stream("s"), bench.space.stream("bad"))
    for place in ("5-0", "6-0"):
        await bench.bus.execute("XADD", names[0], place, "id", "a", "n", "1")
    await bench.bus.execute("XGROUP", "CREATE", names[0], "g", "0")
    await bench.bus.execute("XREADGROUP", "GROUP", "g", "me", "STREAMS", names[0], ">")
    await bench.bus.execute("XDEL", names[0], "6-0")

    async def quarantine(place: str) -> bytes:
        args = ("g", place, "why", 3, 100, 60_000, 1008)
        return await bench.bus.run(ENGINE.script("stream_quarantine"), names, args)

    made = await quarantine("5-0")
    ((place, fields),) = await bench.bus.execute("XRANGE", names[1], "-", "+")
    assert place.decode() == ids.parse(made.decode()).stream_id
    assert fields == [b"id", made, b"stream_id", b"5-0", b"group", b"g", b"error", b"why", b"deliveries", b"3",
                      b"field:id", b"a", b"field:n", b"1"]  # fmt: skip
    assert 50_000 < await bench.bus.execute("PTTL", names[1]) <= 60_000
    assert await quarantine("6-0") == b""
    assert await bench.bus.execute("XLEN", names[1]) == 1
    assert (await bench.bus.execute("XPENDING", names[0], "g"))[0] == 0


async def test_who_is_silent_and_holds_nothing_is_dropped_but_for_the_caller(bench: Bench) -> None:
    key = bench.space.stream("s")

    async def drop(idle_ms: int) -> list[bytes]:
        return await bench.bus.run(ENGINE.script("stream_drop_consumers"), [key], ["g", "me", idle_ms])

    assert await drop(0) == [], "no stream"
    await bench.bus.execute("XADD", key, "5-0", "id", "a")
    assert await drop(0) == [], "no group"
    await bench.bus.execute("XGROUP", "CREATE", key, "g", "0")
    for name in ("me", "old", "older"):
        await bench.bus.execute("XGROUP", "CREATECONSUMER", key, "g", name)
    await bench.bus.execute("XREADGROUP", "GROUP", "g", "holder", "STREAMS", key, ">")
    assert await drop(60_000) == []
    assert sorted(await drop(0)) == [b"old", b"older"]
    assert await drop(0) == []
    assert (await bench.bus.execute("XACK", key, "g", "5-0")) == 1
    assert await drop(0) == [b"holder"]


@pytest.mark.parametrize("kind", ["maxlen", "minid"])
async def test_a_trim_stops_at_the_very_record_that_a_group_needs_first(bench: Bench, kind: str) -> None:
    key = bench.space.stream("s")
    for tail in range(5):
        await bench.bus.execute("XADD", key, f"5-{tail}", "id", tail)

    async def trim(keep: int, budget: int = 100) -> list[bytes | int]:
        """Trim to the last `keep` of the five."""
        threshold = keep if kind == "maxlen" else f"5-{5 - keep}"
        args = [kind, threshold, "=", 0, "", budget]
        return await bench.bus.run(ENGINE.script("stream_trim"), [key], args)

    await bench.bus.execute("XGROUP", "CREATE", key, "g", "0")
    assert await trim(4) == [0, b"group:g", b"5-0", b"0"]
    await bench.bus.execute("XREADGROUP", "GROUP", "g", "me", "COUNT", 3, "STREAMS", key, ">")
    await bench.bus.execute("XACK", key, "g", "5-1")
    assert await trim(1) == [0, b"group:g", b"5-0", b"0"], "two are pending, the first counts"
    await bench.bus.execute("XACK", key, "g", "5-0")
    assert await trim(1) == [2, b"group:g", b"5-2", b"0"]
    await bench.bus.execute("XACK", key, "g", "5-2")
    assert await trim(2) == [1, b"", b"", b"0"], "what is delivered and acknowledged goes, one record too"
    assert await trim(0) == [0, b"group:g", b"5-3", b"0"], "what was never delivered stays"
    await bench.bus.execute("XGROUP", "SETID", key, "g", "5-4")
    if kind == "maxlen":
        assert await trim(0, budget=1) == [1, b"", b"", b"1"]
        assert await trim(0, budget=1) == [1, b"", b"", b"0"]
    else:
        assert await trim(0) == [2, b"", b"", b"0"]


async def test_a_long_trim_goes_page_by_page_within_its_budget(bench: Bench) -> None:
    key = bench.space.stream("s")
    await bench.bus.pipeline([("XADD", key, f"5-{tail}", "id", tail) for tail in range(110)])
    await bench.bus.execute("XGROUP", "CREATE", key, "g", "5-99")

    async def trim(keep: int, budget: int) -> list[bytes | int]:
        args = ["maxlen", keep, "=", 0, "", budget]
        return await bench.bus.run(ENGINE.script("stream_trim"), [key], args)

    assert await trim(0, 40) == [40, b"", b"", b"1"]
    assert await bench.bus.execute("XLEN", key) == 70
    assert await trim(0, 1000) == [60, b"group:g", b"5-100", b"0"]
    assert await bench.bus.execute("XLEN", key) == 10
