"""Budgets: a fixed window or a token bucket for the queue, a bucket for each paced lane.

A bucket is one number, the time until which it is spent: never more than `burst + rate * T` units in any T seconds.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import ceil, floor, inf

from tests.engine.model.plain.state import Fresh, Queue

SLOW = 0.0001  # units a second of a story's buckets: what is spent does not come back within it


def bucket(q: Queue, key: str, rate: float, burst: int) -> int:
    """The units that are left."""
    ahead = max(0, q.arrivals.get(key, 0) - q.world.now)
    return floor(burst - ahead * rate / 1000)


def draw(q: Queue, key: str, rate: float, units: int) -> None:
    before = q.arrivals.get(key, 0)
    after = max(before, q.world.now) + units * 1000 / rate
    q.arrivals[key] = Fresh(after) if before <= q.world.now or isinstance(before, Fresh) else after
    q.lives[key] = Fresh(ceil(after))


def wait(q: Queue, key: str, rate: float, burst: int) -> float:
    """How long until there is a unit again."""
    start = max(q.arrivals.get(key, 0), q.world.now)
    return max(1, start - q.world.now - (burst - 1) * 1000 / rate)


def _bucket(q: Queue) -> tuple[float, int] | None:
    if q.meta.get("limiter") != "bucket":
        return None
    return float(q.meta["rate"]), int(q.meta["burst"])


def budget(q: Queue) -> float:
    """How many jobs the queue may hand out now."""
    if pair := _bucket(q):
        return max(0, bucket(q, "limiter", *pair))
    return max(0, int(q.meta["max"]) - q.spent) if "max" in q.meta else inf


def spend(q: Queue, units: int) -> None:
    if pair := _bucket(q):
        draw(q, "limiter", pair[0], units)
    elif "max" in q.meta:
        if not q.spent:
            q.live("limiter", int(q.meta["duration"]))
        q.spent += units


def limited_ms(q: Queue) -> float:
    """How long the budget is spent, 0 when it is not."""
    if budget(q) >= 1:
        return 0
    if pair := _bucket(q):
        return wait(q, "limiter", *pair)
    return max(1, q.lives["limiter"] - q.world.now)


def pace(q: Queue, lane: str) -> tuple[float, int] | None:
    """The nearest setting counts: the lane's own, its kind's, the default."""
    own = q.rates.get(lane) or q.meta.get(f"lane_rate:{lane[:3]}")
    if own:
        rate, burst = own.split(":")
        return float(rate), int(burst)
    if "lane_rate" in q.meta:
        return float(q.meta["lane_rate"]), int(q.meta["lane_burst"])
    return None


def configure(q: Queue, **fields: object) -> None:
    """Set some of the queue's settings; None removes one. Another kind of limiter begins unspent."""
    kind = q.meta.get("limiter")
    for name, value in fields.items():
        q.meta.pop(name, None)
        if value is not None:
            q.meta[name] = str(value)
    if q.meta.get("limiter") != kind:
        restore(q)
    q.wake()


def follow_pace(q: Queue, lanes: Iterable[str]) -> None:
    """Lanes that rest do so as their present pace says, and as long as they were told to."""
    for lane in lanes:
        rests = q.resting.get(lane)
        if rests is None:
            continue
        now, ends, own = q.world.now, q.parked.get(lane, 0), pace(q, lane)
        if own and bucket(q, f"pace:{lane}", *own) < 1:
            ends = max(ends, q.world.after(wait(q, f"pace:{lane}", *own)))
        if ends <= now:
            q.end_rest(lane)
            q.visit(lane)
        elif abs(ends - rests) > 1000:  # a burst of one more or less is hours
            q.resting[lane] = ends
            q.wake()


def follow_default(q: Queue) -> None:
    """Lanes with a ceiling by default have the present one."""
    default = q.meta.get("lane_limit")
    for lane, written in list(q.defaulted.items()):
        if not default or q.limits.get(lane) != written:
            q.forget_default(lane)
        elif int(default) != written:
            q.limits[lane] = q.defaulted[lane] = int(default)
        q.visit(lane)


def restore(q: Queue) -> None:
    """The queue's budget is whole again."""
    q.spent = 0
    q.arrivals.pop("limiter", None)
    q.lives.pop("limiter", None)
