"""Scenarios of event streams: places, groups, retention, the watermark, windows of time."""

from __future__ import annotations

import asyncio

from codemojex.engine import ids
from codemojex.engine.errors import InvalidId, InvalidValue
from codemojex.engine.protocol.conformance.fixture import ScenarioFixture, equal, refused, that
from codemojex.engine.streams import streams
from codemojex.engine.streams.consumer import GroupOptions, GroupReader
from codemojex.engine.streams.record import Record
from codemojex.engine.streams.streams import MaxLen, MinId, Nonmonotonic

_KEY = "stream:s"
_BASE_MS = 1_740_830_400_500  # 2025-03-01T12:00:00.500Z


def _at(ms: int, tail: int = 0) -> str:
    """The EVT id of a place in a stream."""
    return ids.from_stream_id("EVT", f"{ms}-{tail}")


async def _places(stage: ScenarioFixture) -> list[str]:
    return [entry_id.decode() for entry_id, _ in await stage.raw("XRANGE", _KEY, "-", "+")]


async def stream_verbs(stage: ScenarioFixture) -> None:
    """The server's stream commands round trip; a pipelined batch keeps its order and no published message gets in."""
    key = stage.space.stream("s")
    channel = stage.space.events()

    async def shout() -> None:
        for number in range(50):
            await stage.bus.execute("PUBLISH", channel, f"{number}")

    batch = [("XADD", key, f"{_BASE_MS}-{i}", "n", i) for i in range(100)]
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(shout())
        replies = tasks.create_task(stage.bus.pipeline(batch))
    equal(replies.result(), [f"{_BASE_MS}-{i}".encode() for i in range(100)], "the replies of the batch")
    await stage.bus.execute("XGROUP", "CREATE", key, "g", "0")
    read = ("XREADGROUP", "GROUP", "g", "one", "COUNT", 3, "STREAMS", key, ">")
    [entries] = (await stage.bus.execute(*read)).values()
    equal([entry_id for entry_id, _ in entries], replies.result()[:3], "the entries of the group")
    equal(await stage.bus.execute("XACK", key, "g", entries[0][0]), 1, "acknowledged entries")
    _, claimed, _ = await stage.bus.execute("XAUTOCLAIM", key, "g", "two", 0, "0-0")
    equal([entry_id for entry_id, _ in claimed], replies.result()[1:3], "the entries taken over")


async def stream_append(stage: ScenarioFixture) -> None:
    """Order of minting is order of ids is order in the stream; a wrong kind leaves no key; an old id is refused."""
    order = stage.id("ORD")
    call = streams.append_id(stage.bus, stage.queue, "s", order, {"n": "1"})
    await refused(call, InvalidId, "an ORD id")
    equal(await stage.keys(), {}, "the queue's keys after the refusal")
    made = [await streams.append(stage.bus, stage.queue, "s", {"n": str(i)}, stage.mint) for i in range(5)]
    equal(made, sorted(made), "ids in the order of minting")
    equal(await _places(stage), [ids.parse(i).stream_id for i in made], "places: real Unix ms, node and sequence")
    raw = await stage.raw("XRANGE", _KEY, "-", "+", "COUNT", 1)
    equal(raw[0][1], [b"id", made[0].encode(), b"n", b"0"], "the fields of a record")
    old = _at(_BASE_MS)
    verdict = await streams.append_id(stage.bus, stage.queue, "s", old, {"n": "late"})
    that(isinstance(verdict, Nonmonotonic) and verdict.id == old, f"an id out of order is refused, not {verdict}")
    equal(len(await _places(stage)), 5, "records")


async def stream_group(stage: ScenarioFixture) -> None:
    """An entry that a dead reader left is delivered again to another one; an acknowledged entry is not."""
    key = stage.space.stream("s")
    made = [await streams.append(stage.bus, stage.queue, "s", {"n": str(i)}, stage.mint) for i in range(2)]
    await stage.bus.execute("XGROUP", "CREATE", key, "g", "0")
    await stage.bus.execute("XREADGROUP", "GROUP", "g", "dead", "STREAMS", key, ">")
    await stage.bus.execute("XACK", key, "g", ids.parse(made[0]).stream_id)
    seen: list[str] = []

    async def handle(records: list[Record]) -> None:
        seen.extend(record.id for record in records)

    options = GroupOptions(claim_idle_ms=30, block_ms=20, retry_base_ms=1)
    reader = GroupReader(stage.bus, stage.queue, "s", "g", "alive", handle, options=options)
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(reader.run())
        await stage.until(lambda: bool(seen), "the unacknowledged entry comes again")
        await stage.until(lambda: _settled(stage), "it is acknowledged")
        reader.stop()
        await running
    equal(seen, [made[1]], "what was delivered again")


async def _settled(stage: ScenarioFixture) -> bool:
    return (await stage.bus.execute("XPENDING", stage.space.stream("s"), "g"))[0] == 0


async def stream_retention(stage: ScenarioFixture) -> None:
    """Trimming by length and by instant removes what is outside and keeps what is inside, exact to the millisecond."""
    for ms, tail in ((0, 0), (0, 4_194_303), (1, 0), (1, 7), (2, 0)):
        await streams.append_id(stage.bus, stage.queue, "s", _at(_BASE_MS + ms, tail), {"n": "1"})
    gone = await streams.trim(stage.bus, stage.queue, "s", MinId(_BASE_MS + 1))
    equal(gone.removed, 2, "records before the instant")
    inside = [f"{_BASE_MS + 1}-0", f"{_BASE_MS + 1}-7", f"{_BASE_MS + 2}-0"]
    equal(await _places(stage), inside, "records from the instant on")
    gone = await streams.trim(stage.bus, stage.queue, "s", MaxLen(2))
    equal(gone.removed, 1, "records beyond the length")
    equal(await _places(stage), inside[1:], "the newest two")
    equal((await streams.trim(stage.bus, stage.queue, "s", MaxLen(2))).removed, 0, "a second trim")


async def stream_archived(stage: ScenarioFixture) -> None:
    """The archive's watermark is set, overwritten and cleared; it is a plain string that lapses."""
    equal(await streams.get_archived(stage.bus, stage.queue, "s"), None, "an absent watermark")
    for ms in (1, 2):
        await streams.set_archived(stage.bus, stage.queue, "s", _at(_BASE_MS + ms))
        equal(await streams.get_archived(stage.bus, stage.queue, "s"), _at(_BASE_MS + ms), "the watermark")
        equal(await stage.text(f"{_KEY}:archived"), _at(_BASE_MS + ms), "the watermark, raw")
    that(await stage.raw("PTTL", f"{_KEY}:archived") > 0, "it has a life time")
    await streams.clear_archived(stage.bus, stage.queue, "s")
    equal(await stage.keys(), {}, "the queue's keys")


async def stream_time_travel(stage: ScenarioFixture) -> None:
    """A closed window holds exactly the ids of its milliseconds; an open one agrees from its start on."""
    made = [_at(_BASE_MS + ms, tail) for ms in range(4) for tail in (0, 4096, 4_194_303)]
    for record_id in made:
        await streams.append_id(stage.bus, stage.queue, "s", record_id, {"n": "1"})
    for first, last in ((0, 3), (1, 2), (2, 2), (3, 9), (5, 9)):
        window = await streams.read_window(stage.bus, stage.queue, "s", _BASE_MS + first, _BASE_MS + last)
        wanted = [i for i in made if _BASE_MS + first <= ids.parse(i).unix_ms <= _BASE_MS + last]
        equal([record.id for record in window], wanted, f"the window {first} to {last} ms")
    since = await streams.read_since(stage.bus, stage.queue, "s", _BASE_MS + 2)
    equal([record.id for record in since], made[6:], "the open window")
    equal(streams.floor(_BASE_MS), "1740830400500-0", "the lower bound of an instant")
    equal(_at(_BASE_MS), "EVT0BODbjai1b6", "its id")
    call = streams.read_window(stage.bus, stage.queue, "s", _BASE_MS + 1, _BASE_MS)
    await refused(call, InvalidValue, "a window that ends before it begins")
