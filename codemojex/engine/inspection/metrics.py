"""How a queue is doing, at one instant, for dashboards, health checks and tests.

Reading changes nothing. Lanes are looked at in bounded portions, so a snapshot never blocks the server for long; with
more than `MAX_LANES` lanes it says so instead of looking at all.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from codemojex.engine import ids, keyspace, validation
from codemojex.engine.errors import InvalidValue
from codemojex.engine.lanes import lanes
from codemojex.engine.scripts import ENGINE
from codemojex.engine.transport.connector import Connector

MAX_LANES = 10_000
_PORTION = 1000
_SETS = ("pending", "active", "schedule", "dead")
_TOTALS = ("completed", "failed")


@dataclass(frozen=True, slots=True)
class Counts:
    """A snapshot. `pending` counts flat and lane jobs; ages are None when nothing waits.

    `outbox`: ends of children that parents in other queues have not heard of; `parents`: jobs that wait for children.
    `blocked`: how often a handler blocked its event loop for so long that another thread had to renew its lease.
    """

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
    outbox: int = 0
    parents: int = 0
    oldest_parent_age_ms: int | None = None
    blocked: int = 0


@dataclass(frozen=True, slots=True)
class LaneDepth:
    """The backlog of one lane."""

    lane: str
    depth: int
    oldest_age_ms: int


@dataclass(frozen=True, slots=True)
class Leases:
    """The leases of the jobs in flight: how many lapsed, and in how many ms the first and the last one will.

    Negative: so long ago. None without jobs in flight.
    """

    lapsed: int
    first_lapse_ms: int | None
    last_lapse_ms: int | None


@dataclass(frozen=True, slots=True)
class Limiter:
    """The queue's budget. `size` jobs per `duration_ms` (window), or a burst of `size` at `rate_per_s` (bucket).

    `left` units can be spent now; with none left there is one again in `limited_ms`.
    """

    kind: Literal["none", "window", "bucket"]
    size: int = 0
    duration_ms: int | None = None
    rate_per_s: float | None = None
    left: int | None = None
    limited_ms: int = 0


@dataclass(frozen=True, slots=True)
class QueueSnapshot:
    """Everything about a queue around the server's instant `at_ms`; each part is consistent in itself.

    `next_due_ms`: until the next scheduled job or resting lane. `top_lanes`: the deepest, deepest first.
    """

    at_ms: int
    counts: Counts
    leases: Leases
    limiter: Limiter
    concurrency: int | None
    next_due_ms: int | None
    top_lanes: tuple[LaneDepth, ...]


@dataclass(frozen=True, slots=True)
class Throughput:
    """What happened between two snapshots, per second."""

    seconds: float
    completed_per_s: float
    failed_per_s: float


async def snapshot(bus: Connector, queue: str, *, top: int = 10) -> QueueSnapshot:
    """Look at everything, with the `top` deepest lanes (at most 1000)."""
    validation.integer("top", top, 0, _PORTION)
    now, lapsed, first, last, kind, size, pace, left, limited_ms, concurrency, due = await bus.run(
        ENGINE.script("gauges"), (keyspace.of(queue).prefix,)
    )
    counted, waiting = await _count(bus, queue)
    limiter = Limiter("none")
    if kind == b"window":
        limiter = Limiter("window", size, duration_ms=int(float(pace)), left=left, limited_ms=limited_ms)
    elif kind == b"bucket":
        limiter = Limiter("bucket", size, rate_per_s=float(pace), left=left, limited_ms=limited_ms)
    return QueueSnapshot(
        at_ms=now,
        counts=counted,
        leases=Leases(lapsed, int(float(first)) - now if first else None, int(float(last)) - now if last else None),
        limiter=limiter,
        concurrency=concurrency,
        next_due_ms=due if due >= 0 else None,
        top_lanes=tuple(heapq.nlargest(top, waiting, key=lambda lane: (lane.depth, lane.oldest_age_ms))),
    )


def throughput(before: QueueSnapshot, after: QueueSnapshot) -> Throughput:
    """Jobs per second between two snapshots of one queue; 0 where a total was reset in between.

    Raises InvalidValue unless `after` is later.
    """
    seconds = (after.at_ms - before.at_ms) / 1000
    if seconds <= 0:
        raise InvalidValue("throughput takes two snapshots, the earlier one first")
    completed = max(0, after.counts.completed - before.counts.completed)
    failed = max(0, after.counts.failed - before.counts.failed)
    return Throughput(seconds, completed / seconds, failed / seconds)


async def counts(bus: Connector, queue: str) -> Counts:
    """Count everything. `overdue_ms`: how long the lease that lapsed first has been waiting for recovery."""
    return (await _count(bus, queue))[0]


async def _count(bus: Connector, queue: str) -> tuple[Counts, list[LaneDepth]]:
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
        untold,
        parents,
        since,
        blocked,
    ) = await bus.run(script, keys)
    backlogs = zip(known, await _backlogs(bus, queue, known[:MAX_LANES]), strict=False)
    waiting = [LaneDepth(lane, depth, _age_ms(now, oldest)) for lane, (depth, oldest) in backlogs if depth]
    ages = [lane.oldest_age_ms for lane in waiting]
    if head:
        ages.append(_age_ms(now, head))
    counted = Counts(
        pending=flat + sum(lane.depth for lane in waiting),
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
        oldest_age_ms=max(ages, default=None),
        overdue_ms=max(0, now - int(float(lease))) if lease else 0,
        paused=stopped == 1,
        outbox=untold,
        parents=parents,
        oldest_parent_age_ms=max(0, now - int(float(since))) if since else None,
        blocked=blocked,
    )
    return counted, waiting


async def get_counts(bus: Connector, queue: str, names: Sequence[str]) -> Mapping[str, int]:
    """The sizes of the named sets and totals; raises InvalidValue for a name that is neither."""
    space = keyspace.of(queue)
    names = validation.many("names", names)
    commands: list[tuple[str, ...]] = []
    for name in names:
        if name in _SETS:
            commands.append(("ZCARD", space.key(name)))
        elif name in _TOTALS:
            commands.append(("HGET", space.key(f"metrics:{name}"), "count"))
        else:
            raise InvalidValue(f"unknown state {validation.shown(name)}: use one of {', '.join(_SETS + _TOTALS)}")
    return {name: int(reply or 0) for name, reply in zip(names, await bus.all(commands), strict=True)}


async def _backlogs(bus: Connector, queue: str, known: Sequence[str]) -> list[tuple[int, bytes]]:
    script, prefix = ENGINE.script("lane_depths"), keyspace.of(queue).prefix
    portions = [known[i : i + _PORTION] for i in range(0, len(known), _PORTION)]
    backlogs: list[tuple[int, bytes]] = []
    for portion in portions:
        reply = await bus.run(script, (prefix,), portion)
        backlogs += zip(reply[::2], reply[1::2], strict=True)
    return backlogs


def _age_ms(now: int, oldest: bytes) -> int:
    return max(0, now - ids.parse(oldest.decode()).unix_ms)
