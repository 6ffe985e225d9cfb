"""Our own scenarios, streams and housekeeping: section 7.6."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

from codemojex.engine import ids, keyspace
from codemojex.engine.errors import InvalidName, InvalidValue, VersionFence
from codemojex.engine.ids import Minter
from codemojex.engine.inspection import admin, metrics
from codemojex.engine.jobs import jobs, registry
from codemojex.engine.jobs.jobs import MAX_PAYLOAD, Dedup, Enqueued
from codemojex.engine.jobs.outcome import Discard
from codemojex.engine.protocol.conformance.fixture import ScenarioFixture, equal, refused, that
from codemojex.engine.streams import streams
from codemojex.engine.streams.consumer import GroupOptions, GroupReader, read_quarantine
from codemojex.engine.streams.record import Record
from codemojex.engine.streams.streams import AppendConflict, Appended, MaxLen, NewRecord
from codemojex.engine.transport.connector import Connector

_OPTIONS = GroupOptions(claim_idle_ms=40, block_ms=20, retry_base_ms=1, retry_cap_ms=5, max_deliveries=3)


async def stream_writers(stage: ScenarioFixture) -> None:
    """Several writers append to one stream at once, also with clocks apart: each record once, in each one's order."""
    ahead = Minter(901)
    ahead.observe(await stage.now_ms() + 2_000)
    minters = [stage.mint, ahead, Minter(902)]

    async def write(minter: Minter) -> list[str]:
        return [await streams.append(stage.bus, stage.queue, "s", {"by": str(minter.node)}, minter) for _ in range(15)]

    made = await asyncio.gather(*(write(minter) for minter in minters))
    stored = [record.id for record in await streams.read(stage.bus, stage.queue, "s")]
    equal(stored, sorted(stored), "the order of the stream")
    equal(sorted(stored), sorted(i for own in made for i in own), "the records")
    that(all(own == sorted(own) for own in made), "each writer's own order")


async def stream_repeat(stage: ScenarioFixture) -> None:
    """A record appended again under its id is stored once; other content under it is a conflict; a batch says which."""
    record_id = stage.mint.mint("EVT")
    records = [NewRecord({"n": "1"}, record_id), NewRecord({"n": "1"}, record_id), NewRecord({"n": "2"}, record_id)]
    verdicts = await streams.append_batch(stage.bus, stage.queue, "s", [*records, {"n": "3"}], stage.mint)
    wanted = [Appended(record_id), Appended(record_id, repeated=True), AppendConflict(record_id)]
    equal(verdicts[:3], wanted, "the verdicts")
    that(isinstance(verdicts[3], Appended), f"the last one is appended: {verdicts[3]}")
    equal(await stage.raw("XLEN", "stream:s"), 2, "records")


async def poison_entry(stage: ScenarioFixture) -> None:
    """An entry that always fails blocks no other, goes to quarantine after its deliveries, and is acknowledged."""
    made = [await streams.append(stage.bus, stage.queue, "s", {"n": str(i)}, stage.mint) for i in range(5)]
    done: list[str] = []

    async def handle(records: list[Record]) -> list[str]:
        done.extend(record.id for record in records if record.text("n") != "0")
        return [record.id for record in records if record.text("n") == "0"]

    reader = GroupReader(stage.bus, stage.queue, "s", "g", "one", handle, options=_OPTIONS)
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(reader.run())
        await stage.until(lambda: _quarantined(stage, 1), "the entry is quarantined")
        reader.stop()
        await running
    equal(set(done), set(made[1:]), "the entries that were handled")
    (kept,) = await read_quarantine(stage.bus, stage.queue, "s")
    equal((kept.text("field:n"), kept.text("group")), ("0", "g"), "the quarantined entry")
    pending = await stage.bus.execute("XPENDING", stage.space.stream("s"), "g")
    equal(pending[0], 0, "unacknowledged entries")


async def _quarantined(stage: ScenarioFixture, n: int) -> bool:
    return await stage.raw("XLEN", "stream:s:quarantine") == n


async def group_returns(stage: ScenarioFixture) -> None:
    """A group that vanished is made again where this reader was; nothing comes twice and nothing is missed."""
    seen: list[str] = []

    async def handle(records: list[Record]) -> None:
        seen.extend(record.id for record in records)

    reader = GroupReader(stage.bus, stage.queue, "s", "g", "one", handle, options=_OPTIONS)
    first = await streams.append(stage.bus, stage.queue, "s", {"n": "1"}, stage.mint)
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(reader.run())
        await stage.until(lambda: seen == [first], "the first entry is handled")
        await stage.bus.execute("XGROUP", "DESTROY", stage.space.stream("s"), "g")
        second = await streams.append(stage.bus, stage.queue, "s", {"n": "2"}, stage.mint)
        await stage.until(lambda: len(seen) > 1, "the second entry is handled")
        reader.stop()
        await running
    equal(seen, [first, second], "what was handled")


async def retention_guard(stage: ScenarioFixture) -> None:
    """A trim stops at what a group or the archive still needs and says who; forced it does not ask."""
    made = [await streams.append(stage.bus, stage.queue, "s", {"n": str(i)}, stage.mint) for i in range(10)]
    key = stage.space.stream("s")
    await streams.set_archived(stage.bus, stage.queue, "s", made[2])
    held = await streams.trim(stage.bus, stage.queue, "s", MaxLen(0))
    equal((held.removed, held.held_by), (3, "archive"), "the trim behind the archive")
    equal(held.held_from, ids.parse(made[3]).stream_id, "the first record that is held")
    await streams.set_archived(stage.bus, stage.queue, "s", made[9])
    await stage.bus.execute("XGROUP", "CREATE", key, "g", ids.parse(made[5]).stream_id)
    held = await streams.trim(stage.bus, stage.queue, "s", MaxLen(0))
    equal((held.removed, held.held_by), (3, "group:g"), "the trim behind the group")
    forced = await streams.trim(stage.bus, stage.queue, "s", MaxLen(0), force=True)
    equal((forced.removed, forced.held_by), (4, None), "the forced trim")


async def bounded_families(stage: ScenarioFixture) -> None:
    """What would grow for ever is bounded or expires: dead letters, keys of producers, wake tokens."""
    made = await stage.fill(*[None] * 12)
    for job in await stage.take(12):
        await stage.settle(job, Discard("no"))
    equal(await admin.trim_dead(stage.bus, stage.queue, keep=5), 7, "dead letters beyond the number")
    equal(list(await stage.scores("dead")), made[7:], "the newest dead letters")
    rows = {suffix for suffix in await stage.keys() if suffix.startswith("job:")}
    equal(rows, {f"job:{job_id}" for job_id in made[7:]}, "their rows")
    later = await stage.now_ms() + 60_000
    equal(await admin.trim_dead(stage.bus, stage.queue, minted_before_ms=later), 5, "dead letters before an instant")
    await stage.put(stage.job(dedup=Dedup("k", 5_000)))
    that(0 < await stage.raw("PTTL", "de:k") <= 5_000, "a producer's key has a life time")
    await stage.fill(*[None] * 300)
    equal(await stage.raw("LLEN", "wake"), 64, "wake tokens, at most 64")


async def names_checked(stage: ScenarioFixture) -> None:
    """Names of queues, streams, lanes and producers' keys are checked before anything is sent."""
    for queue in ("", "emq", "a b", "a}b", "x" * 129, "ä"):
        await refused(jobs.enqueue(stage.bus, queue, stage.id(), b"x"), InvalidName, f"queue {queue!r}")
    for name in ("", "a:b", "x" * 129):
        await refused(streams.read(stage.bus, stage.queue, name), InvalidName, f"stream {name!r}")
    for key in ("", "a b", "x" * 256):
        await refused(admin.get_dedup(stage.bus, stage.queue, key), InvalidName, f"dedup key {key!r}")
    for lane in ("room", "prt0KHTOWnGLuC", "PRTzzzzzzzzzzz"):
        await refused(_laned(stage, lane), ValueError, f"lane {lane!r}")
    equal(await stage.keys(), {}, "the queue's keys")


async def _laned(stage: ScenarioFixture, lane: str) -> object:
    return stage.job(lane=lane)


async def payload_bound(stage: ScenarioFixture) -> None:
    """A payload of the limit goes through byte for byte; one byte more is refused and nothing is written."""
    largest = bytes(i % 256 for i in range(MAX_PAYLOAD))
    job_id = stage.id()
    equal(await jobs.enqueue(stage.bus, stage.queue, job_id, largest), Enqueued(), "the largest payload")
    (job,) = await stage.take()
    that(job.payload == largest, "the payload comes back byte for byte")
    before = await stage.keys()
    call = jobs.enqueue(stage.bus, stage.queue, stage.id(), largest + b"x")
    await refused(call, InvalidValue, "one byte more")
    await refused(admin.update_data(stage.bus, stage.queue, job_id, largest + b"x"), InvalidValue, "an update")
    equal(await stage.keys(), before, "the queue's keys")


async def counts_lanes(stage: ScenarioFixture) -> None:
    """Counts include the jobs of lanes, and a waiting job of a lane reads pending."""
    made = await stage.fill(None, stage.lane(1), stage.lane(1), stage.lane(2))
    counts = await metrics.counts(stage.bus, stage.queue)
    equal((counts.pending, counts.flat, counts.lanes, counts.lanes_serviceable), (4, 1, 2, 2), "the counts")
    equal({await admin.get_job_state(stage.bus, stage.queue, job_id) for job_id in made}, {"pending"}, "the states")


async def queue_registry(stage: ScenarioFixture) -> None:
    """A queue that was admitted to is listed for tools, and its obliteration takes it off the list."""
    other = stage.sibling("listed")
    await other.fill(None)
    that(other.queue in await registry.queues(stage.bus), "the queue is listed")
    that(await stage.bus.execute("SISMEMBER", keyspace.QUEUES_KEY, other.queue), "its name stands in a set")
    await admin.pause(stage.bus, other.queue)
    await admin.obliterate(stage.bus, other.queue)
    equal(other.queue in await registry.queues(stage.bus), False, "the obliterated queue is listed")


async def fence_names_both(stage: ScenarioFixture) -> None:
    """A server of another wire version is refused at connect, before any command; the error names both versions."""
    heard: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while words := await _command(reader):
            heard.append(words[0].upper())
            match words[0].upper():
                case b"HELLO":
                    writer.write(b"%1\r\n$5\r\nproto\r\n:3\r\n")
                case b"GET":
                    writer.write(b"$12\r\nechomq:2.4.2\r\n")
                case _:
                    writer.write(b"+OK\r\n")
        writer.close()

    with tempfile.TemporaryDirectory(prefix="cmx-") as directory:
        path = Path(directory) / "s"
        async with await asyncio.start_unix_server(serve, path):
            text = str(await refused(Connector.connect(f"unix://{path}"), VersionFence, "a server of version 2.4.2"))
    that("echomq:2.4.2" in text and keyspace.WIRE_VERSION in text, f"both versions are named: {text}")
    equal(b"PING" in heard, False, "a command passed the fence")


async def _command(reader: asyncio.StreamReader) -> list[bytes]:
    """One command in the wire's format; empty at the end of the connection."""
    head = await reader.readline()
    if not head:
        return []
    words: list[bytes] = []
    for _ in range(int(head[1:])):
        size = int((await reader.readline())[1:])
        words.append((await reader.readexactly(size + 2))[:-2])
    return words


async def trimmed_entry(stage: ScenarioFixture) -> None:
    """An entry that was trimmed before its reader ended it is acknowledged, and holds nobody up."""
    key = stage.space.stream("s")
    await streams.append(stage.bus, stage.queue, "s", {"n": "1"}, stage.mint)
    await stage.bus.execute("XGROUP", "CREATE", key, "g", "0")
    await stage.bus.execute("XREADGROUP", "GROUP", "g", "dead", "STREAMS", key, ">")
    await streams.trim(stage.bus, stage.queue, "s", MaxLen(0), force=True)
    kept = await streams.append(stage.bus, stage.queue, "s", {"n": "2"}, stage.mint)
    seen: list[str] = []

    async def handle(records: list[Record]) -> None:
        seen.extend(record.id for record in records)

    reader = GroupReader(stage.bus, stage.queue, "s", "g", "one", handle, options=_OPTIONS)
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(reader.run())
        await stage.until(lambda: _none_pending(stage), "nothing is pending any more")
        reader.stop()
        await running
    equal(seen, [kept], "what was handled")


async def _none_pending(stage: ScenarioFixture) -> bool:
    [group] = await stage.bus.execute("XINFO", "GROUPS", stage.space.stream("s"))
    [last] = await stage.raw("XREVRANGE", "stream:s", "+", "-", "COUNT", 1)
    return group[b"pending"] == 0 and group[b"last-delivered-id"] == last[0]
