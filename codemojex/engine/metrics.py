"""How a queue is doing, at one instant, for dashboards, health checks and tests.

Reading changes nothing. Lanes are looked at in bounded portions, so a snapshot never blocks the server for long; with
more than `MAX_LANES` lanes it says so instead of looking at all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from . import ids, keyspace, lanes
from .connector import Connector
from .errors import InvalidValue
from .scripts import ENGINE

MAX_LANES = 10_000
_PORTION = 1000
_SETS = ("pending", "active", "schedule", "dead")
_TOTALS = ("completed", "failed")


@dataclass(frozen=True, slots=True)
class Counts:
    """A snapshot. `pending` counts flat and lane jobs; ages are None when nothing waits."""

    pending: int
    flat: int
    active: int
    scheduled: int
    dead: int
    completed: int
    failed: int
    lanes: int
    lanes_serviceable: int
    lanes_paused: int
    lanes_resting: int
    lanes_active: int
    lanes_truncated: bool
    oldest_age_ms: int | None
    overdue_ms: int
    paused: bool


async def counts(bus: Connector, queue: str) -> Counts:
    """Count everything. `overdue_ms`: how long the lease that lapsed first has been waiting for recovery."""
    known = await lanes.names(bus, queue, MAX_LANES + 1)
    script, keys = ENGINE.script("counts"), (keyspace.of(queue).prefix,)
    (
        now,
        flat,
        active,
        scheduled,
        dead,
        completed,
        failed,
        ring,
        paused,
        resting,
        busy,
        head,
        lease,
        stopped,
    ) = await bus.run(script, keys)
    waiting = [(depth, oldest) for depth, oldest in await _backlogs(bus, queue, known[:MAX_LANES]) if depth]
    heads = [i for i in (head, *(oldest for _, oldest in waiting)) if i]
    born = min((ids.parse(i.decode()).unix_ms for i in heads), default=None)
    return Counts(
        pending=flat + sum(depth for depth, _ in waiting),
        flat=flat,
        active=active,
        scheduled=scheduled,
        dead=dead,
        completed=completed,
        failed=failed,
        lanes=len(waiting),
        lanes_serviceable=ring,
        lanes_paused=paused,
        lanes_resting=resting,
        lanes_active=busy,
        lanes_truncated=len(known) > MAX_LANES,
        oldest_age_ms=None if born is None else max(0, now - born),
        overdue_ms=max(0, now - int(lease)) if lease else 0,
        paused=stopped == 1,
    )


async def get_counts(bus: Connector, queue: str, names: Sequence[str]) -> Mapping[str, int]:
    """The sizes of the named sets and totals; raises InvalidValue for a name that is neither."""
    space = keyspace.of(queue)
    commands: list[tuple[str, ...]] = []
    for name in names:
        if name in _SETS:
            commands.append(("ZCARD", space.key(name)))
        elif name in _TOTALS:
            commands.append(("HGET", space.key(f"metrics:{name}"), "count"))
        else:
            raise InvalidValue(f"unknown state {name!r}: use one of {', '.join(_SETS + _TOTALS)}")
    return {name: int(reply or 0) for name, reply in zip(names, await bus.pipeline(commands), strict=True)}


async def _backlogs(bus: Connector, queue: str, known: Sequence[str]) -> list[tuple[int, bytes]]:
    script, prefix = ENGINE.script("lane_depths"), keyspace.of(queue).prefix
    portions = [known[i : i + _PORTION] for i in range(0, len(known), _PORTION)]
    backlogs: list[tuple[int, bytes]] = []
    for portion in portions:
        reply = await bus.run(script, (prefix,), portion)
        backlogs += zip(reply[::2], reply[1::2], strict=True)
    return backlogs
