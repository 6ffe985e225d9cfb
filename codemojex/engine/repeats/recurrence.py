"""When a repeated job is due: intervals, cron expressions in a time zone, and what happens to slots that were missed.

A slot is the instant an occurrence belongs to. Slots follow from the schedule alone, never from when somebody got
round to them, so nothing drifts. No I/O and no clock: whoever asks says what time it is.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

from codemojex.engine import validation
from codemojex.engine.errors import InvalidValue

MAX_EVERY_MS = 366 * 24 * 3600 * 1000
MAX_CATCH_UP = 100
_LONGEST_CRON = 256
_STEPS = 2_000  # slots that are walked one by one before the walk starts again nearer to now
_HALVINGS = 64


@dataclass(frozen=True, slots=True)
class Every:
    """A slot every `ms` milliseconds after the first."""

    ms: int

    def __post_init__(self) -> None:
        validation.integer("every ms", self.ms, 1, MAX_EVERY_MS, " (a year)")

    def following(self, slot_ms: int) -> int | None:
        """The slot after the slot `slot_ms`."""
        return slot_ms + self.ms

    def due(self, slot_ms: int, now_ms: int, at_most: int) -> list[int]:
        """The newest `at_most` slots from `slot_ms` to `now_ms`, oldest first."""
        count = (now_ms - slot_ms) // self.ms + 1
        return [slot_ms + i * self.ms for i in range(max(0, count - at_most), count)]


@dataclass(frozen=True, slots=True)
class Cron:
    """A slot wherever the cron expression says so on the clocks of `zone`.

    Five fields, or six with seconds first. Summer time as Debian's cron has it: a fixed time that a change skips
    comes right behind the gap, and one that a change repeats comes once; `*` minutes and hours follow real time.
    """

    expression: str
    zone: str = "UTC"

    def __post_init__(self) -> None:
        _zone(self.zone)
        validation.text("cron expression", self.expression, 1, _LONGEST_CRON)
        try:
            next(CronSim(self.expression, datetime(2024, 1, 1, tzinfo=UTC)))
        except (CronSimError, StopIteration) as error:
            reason = str(error) or "no date ever matches"
            raise InvalidValue(f"{self.expression!r} is not a cron expression: {reason}") from None

    def following(self, slot_ms: int) -> int | None:
        """The first slot after the instant `slot_ms`; None when there is none for fifty years."""
        return next(self._after(slot_ms), None)

    def due(self, slot_ms: int, now_ms: int, at_most: int) -> list[int]:
        """The newest `at_most` slots from the slot `slot_ms`, whatever made it one, to `now_ms`, oldest first."""
        if slot_ms > now_ms:
            return []
        start = slot_ms
        newest = deque([slot_ms], maxlen=at_most)
        for _ in range(_HALVINGS):
            for step, slot in enumerate(self._after(start)):
                if slot > now_ms:
                    return list(newest)
                if step >= _STEPS:
                    break
                newest.append(slot)
            else:
                return list(newest)
            start = max(start + 1, now_ms - (now_ms - start) // 2)
            newest.clear()
        return list(newest)

    def _after(self, instant_ms: int) -> Iterator[int]:
        start = datetime.fromtimestamp(instant_ms // 1000, _zone(self.zone))
        last = instant_ms
        for at in CronSim(self.expression, start):
            slot = int(at.timestamp()) * 1000
            if slot > last:  # a clock that is put back would name an hour of the past again
                last = slot
                yield slot


Schedule = Every | Cron


@dataclass(frozen=True, slots=True)
class Skip:
    """A slot that is more than `grace_ms` late never fires; of the others only the newest does."""

    grace_ms: int = 10_000

    def __post_init__(self) -> None:
        validation.integer("grace_ms", self.grace_ms, 0, MAX_EVERY_MS)

    @property
    def wire(self) -> str:
        return f"skip:{self.grace_ms}"


@dataclass(frozen=True, slots=True)
class One:
    """However many slots were missed, the newest one fires."""

    @property
    def wire(self) -> str:
        return "one"


@dataclass(frozen=True, slots=True)
class All:
    """Every missed slot fires, oldest first; beyond `at_most` the older ones are dropped."""

    at_most: int = 10

    def __post_init__(self) -> None:
        validation.integer("at_most", self.at_most, 1, MAX_CATCH_UP)

    @property
    def wire(self) -> str:
        return f"all:{self.at_most}"


CatchUp = Skip | One | All


@dataclass(frozen=True, slots=True)
class Plan:
    """What to do about a repeat whose `slot_ms` has come: slots to fire, and the next one (None: it has ended)."""

    fire: tuple[int, ...]
    next_ms: int | None


def plan(schedule: Schedule, catch_up: CatchUp, slot_ms: int, now_ms: int, until_ms: int | None = None) -> Plan:
    """Which slots from `slot_ms` to now fire, and which slot comes after them all; none after `until_ms`."""
    if slot_ms > now_ms:
        return Plan((), slot_ms)
    at_most = catch_up.at_most if isinstance(catch_up, All) else 1
    last_ms = now_ms if until_ms is None else min(now_ms, until_ms)
    slots = schedule.due(slot_ms, last_ms, at_most)
    if isinstance(catch_up, Skip):
        slots = [slot for slot in slots if now_ms - slot <= catch_up.grace_ms]
    following = schedule.following((schedule.due(slot_ms, now_ms, 1) or [slot_ms])[-1])
    ended = following is None or (until_ms is not None and following > until_ms)
    return Plan(tuple(slots), None if ended else following)


@lru_cache(maxsize=256)
def cron(expression: str, zone: str) -> Cron:
    """The checked schedule of an expression, remembered."""
    return Cron(expression, zone)


def catch_up_of(wire: str) -> CatchUp:
    """The policy that `wire` says; raises InvalidValue."""
    kind, _, number = wire.partition(":")
    if kind == "one" and not number:
        return One()
    if kind in ("skip", "all") and number.isascii() and number.isdigit():
        return Skip(int(number)) if kind == "skip" else All(int(number))
    raise InvalidValue(f"catch-up policy {wire!r} is unknown: use skip:<ms>, one or all:<n>")


def _zone(name: str) -> ZoneInfo:
    validation.text("time zone", name, 1, _LONGEST_CRON)
    try:
        return ZoneInfo(name)
    except (OSError, ValueError, KeyError):
        raise InvalidValue(f"time zone {name!r} is unknown: use a name like Europe/Berlin or UTC") from None
