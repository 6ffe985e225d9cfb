"""The entries of a consumer group as one consumer sees them: what each command asks, and what its reply means.

Read new ones, take again what is pending here, take over what silent readers hold, acknowledge, give back uncharged,
set aside. When to do what, and what a handler makes of them, is the reader's business.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from codemojex.engine import keyspace, validation
from codemojex.engine.errors import EngineError, ServerError
from codemojex.engine.scripts import ENGINE
from codemojex.engine.streams.record import Record, record
from codemojex.engine.transport.connector import Connector, connector

_QUARANTINE_NODE = 1023
_QUARANTINE_TTL_MS = 30 * 86_400_000


@dataclass(frozen=True, slots=True)
class PendingEntries:
    """An entry that was handed out and not acknowledged."""

    id: str
    idle_ms: int
    deliveries: int


@dataclass(frozen=True, slots=True)
class TakenOver:
    """A page of what silent readers held; `trimmed` are not in the stream any more; `last`: there is no next page."""

    records: list[Record]
    trimmed: int
    last: bool


class Entries:
    """What `consumer` may do with the entries of `group`; pages have at most `batch` of them."""

    def __init__(self, bus: Connector, queue: str, stream: str, group: str, consumer: str, *, batch: int) -> None:
        self.key = keyspace.of(queue).stream(stream)
        self._quarantine_key = keyspace.of(queue).quarantine(stream)
        self._bus = connector("bus", bus)
        self._group = group
        self._consumer = consumer
        self._batch = batch
        self._last_seen = ""  # where a group that vanished is created again
        self._cursor = "0-0"

    async def create(self, start: str) -> None:
        """Make the group, unless it is there: from `start` on, or where this consumer has come to.

        A stream that began again, on a server that lost its data, is read from its first record.
        """
        begin = "0" if start == "head" else "$"
        if self._last_seen:
            newest = await self._bus.execute("XREVRANGE", self.key, "+", "-", "COUNT", 1)
            began_again = not newest or _place(newest[0][0].decode()) < _place(self._last_seen)
            begin = "0" if began_again else self._last_seen
        try:
            await self._bus.execute("XGROUP", "CREATE", self.key, self._group, begin, "MKSTREAM")
        except ServerError as error:
            if not str(error).startswith("BUSYGROUP"):
                raise

    async def new(self, block_ms: int) -> list[Record]:
        """Records that no reader has had; waits for one at most `block_ms`."""
        command = ("XREADGROUP", "GROUP", self._group, self._consumer, "COUNT", self._batch, "BLOCK", block_ms)
        reply = await self._bus.blocking(*command, "STREAMS", self.key, ">", wait_s=block_ms / 1000)
        if not reply:
            return []
        [entries] = reply.values()
        self._last_seen = entries[-1][0].decode()
        return [record(entry_id, pairs) for entry_id, pairs in entries]

    async def pending(self, start: str) -> list[PendingEntries]:
        """A page of what is pending here, from `start` on."""
        command = ("XPENDING", self.key, self._group, start, "+", self._batch, self._consumer)
        return [PendingEntries(i.decode(), idle_ms, n) for i, _, idle_ms, n in await self._bus.execute(*command)]

    async def take(self, due: Mapping[str, int]) -> list[Record]:
        """Take pending entries again (id to deliveries so far), one more each; trimmed ones are acknowledged."""
        claimed = await self._bus.execute("XCLAIM", self.key, self._group, self._consumer, 0, *due)
        return [record(i, pairs, due.get(i.decode(), 1) + 1) for i, pairs in claimed if pairs]

    async def take_over(self, idle_ms: int) -> TakenOver:
        """Take the next page of what others have not touched for `idle_ms`."""
        command = ("XAUTOCLAIM", self.key, self._group, self._consumer, idle_ms, self._cursor)
        cursor, claimed, trimmed = await self._bus.execute(*command, "COUNT", self._batch)
        self._cursor = cursor.decode()
        counts = await self._bus.pipeline([("XPENDING", self.key, self._group, i, i, 1) for i, _ in claimed])
        found = [
            record(entry_id, pairs, count[0][3] if count and not isinstance(count, EngineError) else 1)
            for (entry_id, pairs), count in zip(claimed, counts, strict=True)
        ]
        return TakenOver(found, len(trimmed), self._cursor == "0-0")

    async def touch(self, stream_ids: Sequence[str]) -> None:
        """Show that these are being worked."""
        await self._bus.execute("XCLAIM", self.key, self._group, self._consumer, 0, *stream_ids, "JUSTID")

    async def uncharge(self, records: Sequence[Record]) -> None:
        """Take the present delivery off the entries' counts."""
        take = ("XCLAIM", self.key, self._group, self._consumer, 0)
        await self._bus.all(
            [(*take, r.stream_id, "IDLE", 0, "RETRYCOUNT", max(r.deliveries - 1, 0), "JUSTID") for r in records]
        )

    async def acknowledge(self, records: Sequence[Record]) -> None:
        """These are done."""
        await self._bus.execute("XACK", self.key, self._group, *[r.stream_id for r in records])

    async def set_aside(self, entry: Record, error: str, keep: int) -> None:
        """Acknowledge a poison entry, and keep it with its error in the quarantine, which has `keep` at most."""
        args = [self._group, entry.stream_id, error, entry.deliveries, keep, _QUARANTINE_TTL_MS, _QUARANTINE_NODE]
        await self._bus.run(ENGINE.script("stream_quarantine"), [self.key, self._quarantine_key], args)

    async def drop_silent(self, idle_ms: int) -> list[str]:
        """Forget readers that hold nothing and have been silent for `idle_ms`; their names."""
        args = [self._group, self._consumer, idle_ms]
        dropped = await self._bus.run(ENGINE.script("stream_drop_consumers"), [self.key], args)
        return [name.decode() for name in dropped]


async def read_quarantine(bus: Connector, queue: str, stream: str, count: int = 100) -> list[Record]:
    """The newest quarantined records: `stream_id`, `group`, `error`, `deliveries`, the original as `field:<name>`."""
    validation.integer("count", count, 1, 10_000)
    entries = await bus.execute("XREVRANGE", keyspace.of(queue).quarantine(stream), "+", "-", "COUNT", count)
    return [record(entry_id, pairs) for entry_id, pairs in entries]


def _place(stream_id: str) -> tuple[int, int]:
    ms, _, counter = stream_id.partition("-")
    return int(ms), int(counter)
