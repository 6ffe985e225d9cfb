"""Application time, passed in.

Leases, limits and due times use the server's clock inside scripts; what the application itself dates (ids,
archive rows, deadlines shown to people) comes from one `Clock` that is handed to whoever needs it. This is the
one module that reads the wall clock.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Protocol

from codemojex.engine import validation


class Clock(Protocol):
    """Tells the current instant."""

    def now_ms(self) -> int:
        """Milliseconds since the Unix epoch."""
        ...


class SystemClock:
    """The machine's wall clock."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000


class ManualClock:
    """A clock that moves only when told to: for tests and replays."""

    def __init__(self, now_ms: int = 1_704_067_200_000) -> None:
        self._now_ms = now_ms

    def now_ms(self) -> int:
        return self._now_ms

    def advance(self, ms: int) -> None:
        """Move `ms` milliseconds; negative moves back, as wall clocks sometimes do."""
        self._now_ms += ms


def clock_or(given: Clock | None) -> Clock:
    """The clock `given`, or the machine's for None. Raises InvalidValue for what tells no time."""
    if given is None:
        return SystemClock()
    if not callable(getattr(given, "now_ms", None)):
        raise validation.kind("clock", given, "an object with now_ms(), such as SystemClock()")
    return given


def utc(ms: int) -> datetime:
    """The aware UTC datetime of `ms` Unix milliseconds."""
    return datetime.fromtimestamp(ms / 1000, UTC)
