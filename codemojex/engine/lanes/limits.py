"""Limits that the claim itself keeps: rates, concurrency, ceilings.

They live in the queue's `meta` hash, so every worker of every process honours them at once: a change reaches parked
workers and resting lanes too. What is spent stays spent, in units: another rate does not keep the old one's wait.
Setting the same again changes nothing. A lane's own limits are in `lanes`.
"""

from __future__ import annotations

from codemojex.engine import ids, keyspace, validation
from codemojex.engine.errors import AtCeiling
from codemojex.engine.scripts import ENGINE
from codemojex.engine.transport.connector import Arg, Connector

_MAX = 1_000_000_000


async def set_rate(bus: Connector, queue: str, max_jobs: int, duration_ms: int) -> None:
    """Hand out at most `max_jobs` in every fixed window of `duration_ms`."""
    validation.integer("max_jobs", max_jobs, 1, _MAX)
    validation.integer("duration_ms", duration_ms, 1, _MAX)
    await _configure(bus, queue, limiter="window", max=max_jobs, duration=duration_ms, rate=None, burst=None)


async def set_bucket(bus: Connector, queue: str, rate_per_s: float, burst: int) -> None:
    """Hand out at most `burst + rate_per_s * T` jobs in any interval of T seconds (a token bucket)."""
    _rate(rate_per_s, burst)
    await _configure(bus, queue, limiter="bucket", rate=rate_per_s, burst=burst, max=None, duration=None)


async def clear_rate(bus: Connector, queue: str) -> None:
    """The queue has no rate of its own any more."""
    await _configure(bus, queue, limiter=None, max=None, duration=None, rate=None, burst=None)


async def set_lane_rate(
    bus: Connector,
    queue: str,
    rate_per_s: float | None,
    burst: int = 1,
    *,
    lane: str | None = None,
    kind: str | None = None,
) -> None:
    """Pace every lane as a token bucket, or those of one `kind` (their namespace), or one `lane` alone.

    The nearest setting counts: the lane's own, then its kind's, then the default. None removes a setting.
    """
    _rate(1 if rate_per_s is None else rate_per_s, burst)
    value = None if rate_per_s is None else f"{rate_per_s}:{burst}"
    if kind is not None:
        ids.encode(kind, 0)
        await _configure(bus, queue, **{f"lane_rate:{kind}": value, "lane_kinds": 1})
    elif lane is None:
        await _configure(bus, queue, lane_rate=rate_per_s, lane_burst=None if rate_per_s is None else burst)
    if lane is None or kind is not None:
        await _follow(bus, queue, "pace")
        return
    await bus.run(ENGINE.script("lane_set"), (keyspace.of(queue).prefix,), (ids.require(lane), "rate", value or ""))


async def set_concurrency(bus: Connector, queue: str, n: int | None) -> None:
    """At most `n` jobs of the whole queue in flight; None removes the ceiling."""
    if n is not None:
        validation.integer("concurrency", n, 1, _MAX)
    await _configure(bus, queue, concurrency=n)


async def set_default_lane_limit(bus: Connector, queue: str, n: int | None) -> None:
    """At most `n` jobs in flight of each lane that has no limit of its own.

    A lane takes the default when it gets work after it was empty and forgets it when it goes idle. A lane that has a
    default ceiling takes a changed one at once; a busy lane without any ceiling takes one when it has been empty.
    """
    if n is not None:
        validation.integer("lane_limit", n, 1, _MAX)
    await _configure(bus, queue, lane_limit=n)
    await _follow(bus, queue, "ceiling")


async def get_rate_limit_ttl(bus: Connector, queue: str, max_jobs: int = 0) -> int:
    """How many ms until the queue's budget has a unit again, 0 when it has; spends nothing.

    `max_jobs` above 0 asks about that many per window instead of the queue's own setting.
    """
    validation.integer("max_jobs", max_jobs, 0, _MAX)
    return await bus.run(ENGINE.script("rate_ttl"), (keyspace.of(queue).prefix,), (max_jobs,))


async def require_seat(bus: Connector, queue: str) -> None:
    """Raise AtCeiling when the queue's concurrency is used up; claims check it themselves."""
    space = keyspace.of(queue)
    ceiling, active = await bus.all([("HGET", space.key("meta"), "concurrency"), ("ZCARD", space.key("active"))])
    if ceiling is not None and 0 < int(float(ceiling)) <= active:
        raise AtCeiling(f"EMQRATE {active} jobs of queue {queue!r} are in flight, the ceiling is {int(float(ceiling))}")


async def _configure(bus: Connector, queue: str, **fields: str | float | None) -> None:
    args: list[Arg] = []
    for name, value in fields.items():
        args += [name, "" if value is None else value]
    await bus.run(ENGINE.script("configure"), (keyspace.of(queue).prefix,), args)


async def _follow(bus: Connector, queue: str, what: str) -> None:
    """Have the lanes that wait for an old setting take up the new one, a hundred or so in each step."""
    cursor = b"0"
    while True:
        cursor = await bus.run(ENGINE.script("lanes_follow"), (keyspace.of(queue).prefix,), (what, cursor))
        if cursor == b"0":
            return


def _rate(rate_per_s: float, burst: int) -> None:
    validation.number("rate_per_s", rate_per_s, 0.0001, 1_000_000)
    validation.integer("burst", burst, 1, _MAX)
