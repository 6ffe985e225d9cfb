"""Retention of streams: trimming that knows who still needs a record, and the archive's watermark.

A trim never passes the slowest consumer group or the archive unless it is forced, and answers whom it spared. The
watermark kept here is a cache of what the durable store committed; losing it loses nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

from codemojex.engine import ids, keyspace, validation
from codemojex.engine.ids import BrandedId
from codemojex.engine.scripts import ENGINE
from codemojex.engine.streams.record import Instant, floor, following, unix_ms
from codemojex.engine.transport.connector import Arg, Connector

_TRIM_BUDGET = 2_048
_TRIM_CALLS = 1_000
_ARCHIVED_TTL_MS = 90 * 86_400_000


@dataclass(frozen=True, slots=True)
class MaxLen:
    """Keep the newest `n` records; `approx` may keep a few more, and is cheaper."""

    n: int
    approx: bool = False

    def __post_init__(self) -> None:
        validation.integer("maxlen", self.n, 0, ids.MAX_SNOWFLAKE)
        validation.flag("approx", self.approx)


@dataclass(frozen=True, slots=True)
class MinId:
    """Keep records from `start` on: an instant, or the id of the first record to keep."""

    start: Instant | BrandedId
    approx: bool = False

    def __post_init__(self) -> None:
        if isinstance(self.start, str):
            ids.require(self.start, "EVT")
        else:
            unix_ms(self.start)
        validation.flag("approx", self.approx)


@dataclass(frozen=True, slots=True)
class Trimmed:
    """`removed` records went. Of those that should have gone too, `held_from` is the first that `held_by` needs.

    `held_by` is `archive` or `group:<name>`, None when nothing was kept back.
    """

    removed: int
    held_by: str | None = None
    held_from: str | None = None


async def trim(
    bus: Connector,
    queue: str,
    name: str,
    window: MaxLen | MinId,
    *,
    force: bool = False,
    require_archived: bool = False,
) -> Trimmed:
    """Drop records outside `window`, but none that the slowest group or the archive still needs.

    Without an archive watermark the archive needs nothing, unless `require_archived` says that it needs everything.
    `force` drops them whoever needs them.
    """
    key = keyspace.of(queue).stream(name)
    validation.one_of("window", window, MaxLen, MinId)
    validation.flag("force", force)
    validation.flag("require_archived", require_archived)
    kind, threshold = _threshold(window)
    needed = ""
    if not force:
        watermark = await get_archived(bus, queue, name)
        if watermark is not None:
            needed = following(ids.parse(watermark).stream_id)
        elif require_archived:
            needed = "0-1"
    args: list[Arg] = [kind, threshold, "~" if window.approx else "=", int(force), needed, _TRIM_BUDGET]
    removed = 0
    for _ in range(_TRIM_CALLS):
        gone, holder, held_from, more = await bus.run(ENGINE.script("stream_trim"), [key], args)
        removed += gone
        if more != b"1":
            return Trimmed(removed, holder.decode() or None, held_from.decode() or None)
    return Trimmed(removed)


async def set_archived(bus: Connector, queue: str, name: str, record_id: str) -> None:
    """Note that the archive has every record up to and including `record_id`. A cache: it lapses after 90 days."""
    ids.require(record_id, "EVT")
    await bus.execute("SET", keyspace.of(queue).archived(name), record_id, "PX", _ARCHIVED_TTL_MS)


async def get_archived(bus: Connector, queue: str, name: str) -> BrandedId | None:
    """The last record that the archive has, None when nothing is noted."""
    found = await bus.execute("GET", keyspace.of(queue).archived(name))
    return None if found is None else ids.require(found.decode(), "EVT")


async def clear_archived(bus: Connector, queue: str, name: str) -> None:
    """Forget the watermark."""
    await bus.execute("DEL", keyspace.of(queue).archived(name))


def _threshold(window: MaxLen | MinId) -> tuple[str, str]:
    if isinstance(window, MaxLen):
        return "maxlen", str(window.n)
    if isinstance(window.start, str):
        return "minid", ids.parse(window.start).stream_id
    return "minid", floor(window.start)
