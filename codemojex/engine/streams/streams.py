"""Event streams: append under producer-minted ids, read by id or by time, trim with care.

A record's branded id names its place in the stream, so mint order is stream order and an append can be repeated
until it is known to have happened: the same id is stored once. Several processes may append to one stream; whoever
is behind mints a fresh id. Trimming never takes what a consumer group or the archive still needs, unless told to.
"""

from __future__ import annotations

import asyncio
import random
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from codemojex.engine import ids, keyspace, validation
from codemojex.engine.errors import ConnectionFault, EngineError, InvalidValue, StreamAhead, UnknownOutcome, from_reply
from codemojex.engine.ids import BrandedId, Minter
from codemojex.engine.scripts import ENGINE
from codemojex.engine.streams.record import Instant, Record, ceil, floor, record, unix_ms
from codemojex.engine.streams.retention import MaxLen, MinId, Trimmed, clear_archived, get_archived, set_archived, trim
from codemojex.engine.transport.connector import Arg, Connector

__all__ = [
    "AppendConflict",
    "AppendFailed",
    "Appended",
    "MaxLen",
    "MinId",
    "NewRecord",
    "Nonmonotonic",
    "Record",
    "Trimmed",
    "Verdict",
    "append",
    "append_batch",
    "append_id",
    "ceil",
    "clear_archived",
    "floor",
    "get_archived",
    "read",
    "read_since",
    "read_window",
    "scan",
    "set_archived",
    "trim",
]  # fmt: skip

Fields = Mapping[str, str | bytes]

MAX_RECORD_BYTES = 65_536
_MAX_FIELDS = 256
_MAX_PAGE = 10_000
_CHUNK_RECORDS = 128
_CHUNK_BYTES = 1 << 20
_ATTEMPTS = 10
_BOUND = re.compile(r"[-+]|\(?[0-9]{1,20}(-[0-9]{1,20})?")


@dataclass(frozen=True, slots=True)
class NewRecord:
    """A record to append; without an `id` one is minted for it."""

    fields: Fields
    id: BrandedId | None = None


@dataclass(frozen=True, slots=True)
class Appended:
    """The record is in the stream; `repeated` when it was there before this call."""

    id: BrandedId
    repeated: bool = False


@dataclass(frozen=True, slots=True)
class Nonmonotonic:
    """The given id is not above `last`, the stream's last one; nothing was appended."""

    id: BrandedId
    last: str


@dataclass(frozen=True, slots=True)
class AppendConflict:
    """A record with this id but other content is in the stream; nothing was appended."""

    id: BrandedId


@dataclass(frozen=True, slots=True)
class AppendFailed:
    """The record was not appended, or with `UnknownOutcome` perhaps; repeat it under the same `id`."""

    id: BrandedId
    error: EngineError


Verdict = Appended | Nonmonotonic | AppendConflict | AppendFailed


async def append(bus: Connector, queue: str, name: str, fields: Fields, mint: Minter) -> BrandedId:
    """Append one record under a fresh id and return the id.

    Raises StreamAhead when a bounded number of fresh ids all came too late, UnknownOutcome when it stays open
    whether the record is in.
    """
    [verdict] = await append_batch(bus, queue, name, [NewRecord(fields)], mint)
    if isinstance(verdict, AppendFailed):
        raise verdict.error
    return verdict.id


async def append_id(bus: Connector, queue: str, name: str, record_id: str, fields: Fields) -> Verdict:
    """Append one record under the caller's EVT id. Safe to repeat after an unknown outcome."""
    [verdict] = await append_batch(bus, queue, name, [NewRecord(fields, ids.require(record_id, "EVT"))])
    if isinstance(verdict, AppendFailed):
        raise verdict.error
    return verdict


async def append_batch(
    bus: Connector, queue: str, name: str, records: Sequence[NewRecord | Fields], mint: Minter | None = None
) -> list[Verdict]:
    """Append many records; a verdict stands at each one's place.

    Records without an id need `mint`, keep their order among each other, and get a fresh id when another writer was
    faster. A lost answer is settled by asking again under the same ids, so nothing is stored twice. Raises only for
    bad input, before anything is sent.
    """
    key = keyspace.of(queue).stream(name)
    waiting: list[_Waiting] = []
    for given in validation.many("records", records):
        new = given if isinstance(given, NewRecord) else NewRecord(given)
        if new.id is not None:
            ids.require(new.id, "EVT")
        elif mint is None:
            raise InvalidValue("records without an id need a minter: pass mint=")
        waiting.append(_Waiting(new, _pairs(new.fields)))
    for chunk in _chunks(waiting):
        await _append_chunk(bus, key, chunk, mint)
    return [w.verdict for w in waiting if w.verdict is not None]


async def read(
    bus: Connector, queue: str, name: str, start: str = "-", end: str = "+", *, count: int = 100
) -> list[Record]:
    """Up to `count` records in order. `start` and `end` are stream ids, inclusive, or exclusive with a `(` before."""
    validation.integer("count", count, 1, _MAX_PAGE)
    for what, bound in (("start", start), ("end", end)):
        if not _BOUND.fullmatch(validation.text(what, bound)):
            raise InvalidValue(
                f"{what}={validation.shown(bound)} is no stream id: use <ms>-<n>, with a ( before it, - or +"
            )
    entries = await bus.execute("XRANGE", keyspace.of(queue).stream(name), start, end, "COUNT", count)
    return [record(entry_id, pairs) for entry_id, pairs in entries]


async def scan(
    bus: Connector, queue: str, name: str, start: str = "-", end: str = "+", *, page: int = 500
) -> AsyncIterator[Record]:
    """Every record of the range in order, read page by page."""
    while True:
        records = await read(bus, queue, name, start, end, count=page)
        for found in records:
            yield found
        if len(records) < page:
            return
        start = "(" + records[-1].stream_id


async def read_window(
    bus: Connector, queue: str, name: str, since: Instant, until: Instant, *, count: int = _MAX_PAGE
) -> list[Record]:
    """The records minted from `since` to `until`, both milliseconds included. Raises InvalidValue when swapped."""
    if unix_ms(until) < unix_ms(since):
        raise InvalidValue(f"the window ends before it begins: {until} < {since}")
    return await read(bus, queue, name, floor(since), ceil(until), count=count)


async def read_since(bus: Connector, queue: str, name: str, since: Instant, *, count: int = _MAX_PAGE) -> list[Record]:
    """The records minted at `since` or later."""
    return await read(bus, queue, name, floor(since), "+", count=count)


@dataclass(slots=True)
class _Waiting:
    """A record on its way: the id it is tried under, and its verdict once there is one."""

    record: NewRecord
    pairs: list[Arg]
    id: BrandedId | None = None
    doubtful: bool = False  # sent under `id`, and the answer was lost
    verdict: Verdict | None = None


async def _append_chunk(bus: Connector, key: str, chunk: list[_Waiting], mint: Minter | None) -> None:
    for attempt in range(_ATTEMPTS):
        left = [w for w in chunk if w.verdict is None]
        if not left:
            return
        args: list[Arg] = []
        for w in left:
            w.id = w.record.id or w.id or _mint(mint)
            origin = "minted" if w.record.id is None else "given"
            args += [ids.parse(w.id).stream_id, origin, len(w.pairs) + 2, "id", w.id, *w.pairs]
        try:
            replies = await bus.run(ENGINE.script("stream_append"), [key], args)
        except UnknownOutcome as error:
            last = attempt == _ATTEMPTS - 1
            for w in left:
                w.doubtful = True
                w.verdict = AppendFailed(_sure(w.id), error) if last else None
            await _pause(attempt)
            continue
        except EngineError as error:
            settling = isinstance(error, ConnectionFault) and any(w.doubtful for w in left)
            if settling and attempt < _ATTEMPTS - 1:
                await _pause(attempt)
                continue
            for w in left:
                w.verdict = AppendFailed(_sure(w.id), _lost(_sure(w.id), error) if w.doubtful else error)
            return
        for w, reply in zip(left, replies, strict=True):
            _settle(w, [part.decode() for part in reply], mint, ahead_ms=random.randrange(1 << attempt))
    for w in chunk:
        if w.verdict is None:
            w.verdict = AppendFailed(_sure(w.id), StreamAhead(f"{key} stays ahead of {_ATTEMPTS} freshly minted ids"))


def _settle(w: _Waiting, reply: list[str], mint: Minter | None, ahead_ms: int) -> None:
    """Take in one reply; `ahead_ms` is the head start of a fresh id, which grows while other writers are faster."""
    branded = _sure(w.id)
    match reply:
        case ["appended"] | ["repeated"]:
            w.verdict = Appended(branded, reply[0] == "repeated")
        case ["conflict"] if w.record.id is None:  # somebody else has this node's number: another id
            w.id, w.doubtful = None, False
        case ["conflict"]:
            w.verdict = AppendConflict(branded)
        case ["error", text]:
            w.verdict = AppendFailed(branded, from_reply(text))
        case ["behind", last, never_here]:
            if w.doubtful and never_here != "1":
                w.verdict = AppendFailed(branded, UnknownOutcome(f"{branded} may have been appended and trimmed since"))
            elif w.record.id is not None or mint is None:
                w.verdict = Nonmonotonic(branded, last)
            else:
                mint.observe(int(last.partition("-")[0]) + ahead_ms)
                w.id, w.doubtful = None, False
        case _:  # untried: it needs an id above the one that the record before it gets; unless it may be in already
            w.id = w.id if w.doubtful else None


def _lost(record_id: BrandedId, error: EngineError) -> UnknownOutcome:
    return UnknownOutcome(f"whether {record_id} was appended is unknown, append it again under the same id: {error}")


def _mint(mint: Minter | None) -> BrandedId:
    assert mint is not None
    return mint.mint("EVT")


def _sure(record_id: BrandedId | None) -> BrandedId:
    assert record_id is not None
    return record_id


async def _pause(attempt: int) -> None:
    await asyncio.sleep(random.uniform(0.5, 1.0) * min(0.05 * 2**attempt, 1.0))


def _pairs(fields: Fields) -> list[Arg]:
    validation.mapping("the fields of a record", fields)
    if not 1 <= len(fields) <= _MAX_FIELDS:
        raise InvalidValue(f"a record has 1 to {_MAX_FIELDS} fields, this one {len(fields)}")
    if "id" in fields:
        raise InvalidValue("the field 'id' is the record's own: give another name")
    pairs: list[Arg] = []
    for name, value in fields.items():
        pairs.append(validation.text("the name of a field", name))
        pairs.append(value if isinstance(value, bytes) else validation.text(f"field {name!r}", value))
    size = _size(pairs)
    if size > MAX_RECORD_BYTES:
        raise InvalidValue(f"a record of {size} bytes is too large: the limit is {MAX_RECORD_BYTES}")
    return pairs


def _size(pairs: list[Any]) -> int:
    return sum(len(part if isinstance(part, bytes) else part.encode()) for part in pairs)


def _chunks(waiting: list[_Waiting]) -> list[list[_Waiting]]:
    chunks: list[list[_Waiting]] = []
    size = 0
    for w in waiting:
        more = _size(w.pairs)
        if not chunks or len(chunks[-1]) == _CHUNK_RECORDS or size + more > _CHUNK_BYTES:
            chunks.append([])
            size = 0
        chunks[-1].append(w)
        size += more
    return chunks
