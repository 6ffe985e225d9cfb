"""Does the queue's bookkeeping hold together? The oracle of the engine's tests, and an operator's second opinion.

It walks every key of one queue in portions and checks: each row in exactly the set its state names, no id without a
row, seats equal to jobs in flight, the ring equal to the lanes that may be served, no parent waiting for a child that
has left no trace (`lost_ends`). Each portion is judged, and if
asked repaired, in one step, so a busy queue raises no false alarm. It scans the server's keys: not for a hot path.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass

from codemojex.engine import ids, keyspace, validation
from codemojex.engine.inspection import lost_ends
from codemojex.engine.lanes import lanes
from codemojex.engine.repeats import repeats as repeat
from codemojex.engine.scripts import ENGINE
from codemojex.engine.transport.connector import Arg, Connector

_PORTION = 500
_SETS = ("active", "schedule", "dead", "pending", "parents")


@dataclass(frozen=True, slots=True)
class Violation:
    """Something that must not be: `subject` is the id of a job or a lane, or the name of a repeat."""

    subject: str
    what: str


async def audit(bus: Connector, queue: str, *, repair: bool = False) -> list[Violation]:
    """Every violation found; with `repair` each was set right (run it again to see it gone)."""
    space = keyspace.of(queue)
    validation.flag("repair", repair)
    found: list[Violation] = []
    rows, backlogs, repeats = await _keys(bus, space.prefix)

    async def look(script: str, *args: Arg) -> None:
        reply = await bus.run(ENGINE.script(script), (space.prefix,), (int(repair), *args))
        pairs = zip(reply[::2], reply[1::2], strict=True)
        found.extend(Violation(subject.decode(), what.decode()) for subject, what in pairs)

    seen = set(rows)
    for portion in _portions(rows):
        await look("audit_jobs", "", *portion)
    for lane, key in [("", space.key(name)) for name in _SETS] + backlogs:
        async for members in _members(bus, key):
            fresh = [i for i in members if i not in seen]
            if fresh:
                await look("audit_jobs", lane, *fresh)
    await look("audit_active")
    known = sorted({*(await lanes.names(bus, queue, 1_000_000)), *(lane for lane, _ in backlogs)})
    for portion in _portions(known):
        await look("audit_lanes", *portion)
    repeats = sorted({*repeats, *(await repeat.names(bus, queue))})
    for portion in _portions(repeats):
        slots = await repeat.next_slots(bus, space, portion if repair else [])
        await look("audit_repeats", *(part for name in portion for part in (name, slots.get(name, ""))))
    lost = await lost_ends.find(bus, space, rows, repair=repair)
    return found + [Violation(parent, what) for parent, what in lost]


async def _keys(bus: Connector, prefix: str) -> tuple[list[str], list[tuple[str, str]], list[str]]:
    """The ids of every row, every lane's name with its key, and the names of repeats with a record."""
    rows: list[str] = []
    backlogs: list[tuple[str, str]] = []
    repeats: list[str] = []
    async for key in _scan(bus, prefix):
        rest = key[len(prefix) :]
        if rest.startswith("job:") and ids.is_valid(rest[4:]):
            rows.append(rest[4:])
        elif rest.startswith("g:") and rest.endswith(":pending"):
            backlogs.append((rest[2:-8], key))
        elif rest.startswith("repeat:"):
            repeats.append(rest[7:])
    return sorted(set(rows)), sorted(set(backlogs)), repeats


async def _scan(bus: Connector, prefix: str) -> AsyncIterator[str]:
    cursor = b"0"
    while True:
        cursor, keys = await bus.execute("SCAN", cursor, "MATCH", f"{prefix}*", "COUNT", 1000)
        for key in keys:
            yield key.decode()
        if cursor == b"0":
            return


async def _members(bus: Connector, key: str) -> AsyncIterator[list[str]]:
    cursor = b"0"
    while True:
        cursor, pairs = await bus.execute("ZSCAN", key, cursor, "COUNT", _PORTION)
        members = sorted({member.decode() for member in pairs[::2]})
        for start in range(0, len(members), _PORTION):
            yield members[start : start + _PORTION]
        if cursor == b"0":
            return


def _portions(names: Iterable[str]) -> list[list[str]]:
    listed = list(names)
    return [listed[i : i + _PORTION] for i in range(0, len(listed), _PORTION)]
