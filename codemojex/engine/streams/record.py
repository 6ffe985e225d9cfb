"""What a stream record is, and how instants and ids become stream bounds.

A record's branded id and its place in the stream are two spellings of one number, so a time window is a range of
stream ids, exact to the millisecond. No I/O.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from codemojex.engine import ids, validation
from codemojex.engine.errors import InvalidValue
from codemojex.engine.ids import BrandedId

Instant = datetime | int  # an aware datetime, or Unix milliseconds
MAX_TAIL = 0x3FFFFF
MAX_INSTANT_MS = 1 << 48
_UNIX_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Record:
    """One record. `fields` lacks `id`; `deliveries` counts how often a consumer group has handed it out."""

    id: BrandedId
    stream_id: str
    fields: Mapping[str, bytes]
    deliveries: int = 1

    def text(self, name: str, default: str = "") -> str:
        """A field as text."""
        return self.fields[name].decode() if name in self.fields else default


def record(entry_id: bytes, pairs: Sequence[bytes], deliveries: int = 1) -> Record:
    """The record of a raw stream entry.

    A foreign entry without a valid `id` field gets the id of its place in the stream, or, when no id can say that
    place, a fixed one derived from it.
    """
    stream_id = entry_id.decode()
    fields = {pairs[i].decode(errors="replace"): pairs[i + 1] for i in range(0, len(pairs), 2)}
    given = fields.pop("id", b"").decode(errors="replace")
    if given[:3] == "EVT" and ids.is_valid(given):
        return Record(BrandedId(given), stream_id, fields, deliveries)
    ms, _, tail = stream_id.partition("-")
    if int(tail) <= MAX_TAIL and 0 <= int(ms) - ids.EPOCH_MS < 1 << 41:
        return Record(ids.from_stream_id("EVT", stream_id), stream_id, fields, deliveries)
    return Record(ids.derive("EVT", stream_id), stream_id, fields, deliveries)


def unix_ms(instant: Instant) -> int:
    """Unix milliseconds of an aware datetime (fractions of a millisecond are cut); an int is taken as it is."""
    if isinstance(instant, datetime):
        if instant.tzinfo is None:
            raise InvalidValue(f"{instant!r} has no time zone: use an aware datetime")
        instant = (instant - _UNIX_EPOCH) // timedelta(milliseconds=1)
    return validation.integer("instant", instant, 0, MAX_INSTANT_MS, " (Unix ms from 1970 on), or an aware datetime")


def floor(instant: Instant) -> str:
    """The lowest stream id of that millisecond."""
    return f"{unix_ms(instant)}-0"


def ceil(instant: Instant) -> str:
    """The highest stream id of that millisecond."""
    return f"{unix_ms(instant)}-{MAX_TAIL}"


def following(stream_id: str) -> str:
    """The next possible stream id."""
    ms, _, tail = stream_id.partition("-")
    return f"{ms}-{int(tail) + 1}"
