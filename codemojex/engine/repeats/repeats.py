"""Jobs that come again: registered once under a name, fired once per slot however many processes look.

A slot's jobs are admitted and the repeat moves to its next slot in one script, which only the first caller of a slot
wins; a lost answer is therefore harmless. A fired job's id says its slot's time (`ids.parse(job.id).unix_ms`).
Pumps call `fire_due`. A plain interval is fired by peers too. What they cannot read (cron), or would fire in their own
way (a lane, an end, caps, another policy than `One`), is listed in a set of ours, where they do not look.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from codemojex.engine import ids, keyspace, validation
from codemojex.engine.errors import EngineError, InvalidValue
from codemojex.engine.jobs.jobs import MAX_LAST_MS, MAX_PAYLOAD, MAX_WAIT_MS
from codemojex.engine.repeats.recurrence import (
    All,
    CatchUp,
    Cron,
    Every,
    One,
    Plan,
    Schedule,
    Skip,
    catch_up_of,
    cron,
    plan,
)
from codemojex.engine.scripts import ENGINE
from codemojex.engine.transport.connector import Arg, Connector

MAX_REPEATS = 10_000
LIMIT = 100
_MOST_NAMES = 10_000
_UNREADABLE_PAUSE_MS = 60_000
_DUE_FIELDS = 7
_LISTS = ("repeat_ours", "repeat")
_FIELDS = ("template", "every_ms", "cron", "zone", "catch_up", "until", "lane", "max_attempts", "timeout")


@dataclass(frozen=True, slots=True)
class Repeat:
    """A job to repeat. `template` is each occurrence's payload; `lane` None means flat.

    `until_ms`: no slot after this Unix time fires, and the repeat is forgotten behind its last one; with a time that
    has passed nothing fires. `next_ms` is what `get` found, and is not read from a repeat that is handed in.
    """

    name: str
    schedule: Schedule
    template: bytes
    lane: str | None = None
    catch_up: CatchUp = field(default_factory=One)
    until_ms: int | None = None
    max_attempts: int | None = None
    timeout_ms: int | None = None
    next_ms: int | None = None

    def __post_init__(self) -> None:
        keyspace.repeat_name(self.name)
        if self.lane is not None:
            ids.require(self.lane)
        validation.one_of("schedule", self.schedule, Every, Cron)
        validation.data(f"the template of {self.name}", self.template, MAX_PAYLOAD)
        validation.one_of("catch_up", self.catch_up, Skip, One, All)
        for what, value, high in (
            ("until_ms", self.until_ms, MAX_LAST_MS),
            ("max_attempts", self.max_attempts, validation.MAX_ATTEMPTS),
            ("timeout_ms", self.timeout_ms, MAX_WAIT_MS),
        ):
            if value is not None:
                validation.integer(what, value, 1, high)
        if self.next_ms is not None:
            validation.integer("next_ms", self.next_ms, 0, ids.MAX_SNOWFLAKE)


@dataclass(frozen=True, slots=True)
class Due:
    """A repeat whose slot, the `score` in Unix ms, has come; `plan` None: its record cannot be read."""

    name: str
    score: str
    plan: Plan | None


@dataclass(frozen=True, slots=True)
class Fired:
    """What one look at the repeats did.

    `jobs` by repeat; `unreadable` ones are looked at again in a minute. `full`: more may be due. `next_due_ms`: so many
    ms until the next slot, None when there is none.
    """

    jobs: Mapping[str, Sequence[str]]
    unreadable: Sequence[str]
    full: bool
    next_due_ms: int | None


async def register(
    bus: Connector, queue: str, repeat: Repeat, *, first_in_ms: int | None = None, first_at_ms: int | None = None
) -> bool:
    """Register; False when the name is taken, which changes nothing.

    The first slot is `first_at_ms`, or `first_in_ms` from the server's now. With neither an interval begins at once and
    a cron repeat with the expression's next slot. Raises WrongState when the queue has too many.
    """
    return await _set(bus, queue, repeat, "register", first_in_ms=first_in_ms, first_at_ms=first_at_ms)


async def update(bus: Connector, queue: str, repeat: Repeat) -> bool:
    """Replace a registered repeat's settings; False when the name is not registered.

    The coming slot stays, unless the schedule is another one: that begins with its next slot from now.
    """
    validation.one_of("repeat", repeat, Repeat)
    first_in_ms = repeat.schedule.ms if isinstance(repeat.schedule, Every) else None
    return await _set(bus, queue, repeat, "update", first_in_ms=first_in_ms)


async def cancel(bus: Connector, queue: str, name: str) -> bool:
    """Forget a repeat; False when it was not registered. Jobs that it fired stay."""
    return await bus.run(ENGINE.script("repeat_cancel"), (_prefix(queue),), (keyspace.repeat_name(name),)) == 1


async def get(bus: Connector, queue: str, name: str) -> Repeat | None:
    """The registered repeat, or None. Raises InvalidValue for a record that this engine cannot read."""
    space = keyspace.of(queue)
    listed = [("ZSCORE", space.key(key), name) for key in _LISTS]
    values, *slots = await bus.all([("HMGET", space.repeat(name), *_FIELDS), *listed])
    slot = next((slot for slot in slots if slot is not None), None)
    if values[0] is None or slot is None:
        return None
    template, every_ms, expression, zone, catch_up, until, lane, max_attempts, timeout = values
    try:
        return Repeat(
            name,
            _schedule(_text(every_ms), _text(expression), _text(zone)),
            template,
            _text(lane) or None,
            catch_up_of(_text(catch_up) or "one"),
            _number(until),
            _number(max_attempts),
            _number(timeout),
            int(float(slot)),
        )
    except (ValueError, OverflowError) as error:
        raise InvalidValue(f"the record of repeat {name!r} cannot be read, register it again: {error}") from None


async def names(bus: Connector, queue: str, limit: int = _MOST_NAMES) -> list[str]:
    """Up to `limit` registered names, the next one due first."""
    validation.integer("limit", limit, 1, _MOST_NAMES)
    space = keyspace.of(queue)
    listed = await bus.all([("ZRANGE", space.key(key), 0, limit - 1, "WITHSCORES") for key in _LISTS])
    slots = {name: float(slot) for pairs in listed for name, slot in pairs}
    return [name.decode() for name in sorted(slots, key=lambda name: (slots[name], name))[:limit]]


async def next_slots(bus: Connector, space: keyspace.Keyspace, listed: Sequence[str]) -> Mapping[str, int]:
    """When each of these fires next if it has no slot; without those whose record cannot be read."""
    fields = ("every_ms", "cron", "zone")
    now_ms = await _now_ms(bus, space.queue)
    found: dict[str, int] = {}
    calls: list[tuple[Arg, ...]] = [("HMGET", f"{space.key('repeat:')}{name}", *fields) for name in listed]
    for name, values in zip(listed, await bus.all(calls), strict=True):
        try:
            slot = _schedule(*map(_text, values)).following(now_ms)
        except (ValueError, OverflowError, OSError):
            continue
        if slot is not None:
            found[name] = slot
    return found


async def due(bus: Connector, queue: str, limit: int = LIMIT) -> Sequence[Due]:
    """Up to `limit` repeats whose slot has come, the longest due first; changes nothing."""
    return (await _look(bus, queue, limit))[0]


async def advance(bus: Connector, queue: str, name: str) -> bool:
    """Let the coming slot, and those that are due, pass without firing; False when it is not registered."""
    found = await get(bus, queue, name)
    if found is None or found.next_ms is None:
        return False
    now_ms = max(await _now_ms(bus, queue), found.next_ms)
    after = plan(found.schedule, found.catch_up, found.next_ms, now_ms, found.until_ms)
    await bus.run(*_fire(queue, name, found.next_ms, Plan((), after.next_ms)))
    return True


async def fire_due(bus: Connector, queue: str, limit: int = LIMIT) -> Fired:
    """Fire what is due of up to `limit` repeats, each slot once among all processes that call this."""
    found, now_ms, next_due_ms = await _look(bus, queue, limit)
    pause = Plan((), now_ms + _UNREADABLE_PAUSE_MS)
    calls = [_fire(queue, entry.name, entry.score, entry.plan or pause) for entry in found]
    replies: list[Any] = []
    if calls:
        replies = await bus.run_many(calls[0][0], [(keys, args) for _, keys, args in calls])
    jobs: dict[str, Sequence[str]] = {}
    for entry, reply in zip(found, replies, strict=True):
        if isinstance(reply, EngineError):
            raise reply
        if reply:
            jobs[entry.name] = [i.decode() for i in reply]
    for entry in found:
        if entry.plan is not None and entry.plan.next_ms is not None:
            wait_ms = max(1, entry.plan.next_ms - now_ms)
            next_due_ms = wait_ms if next_due_ms is None else min(next_due_ms, wait_ms)
    return Fired(jobs, [entry.name for entry in found if entry.plan is None], len(found) >= limit, next_due_ms)


async def _look(bus: Connector, queue: str, limit: int) -> tuple[list[Due], int, int | None]:
    validation.integer("limit", limit, 1, 500)
    now_ms, next_due_ms, *rows = await bus.run(ENGINE.script("repeat_due"), (_prefix(queue),), (limit,))
    found = [_due(rows[i : i + _DUE_FIELDS], now_ms) for i in range(0, len(rows), _DUE_FIELDS)]
    return found, now_ms, None if next_due_ms < 0 else next_due_ms


def _due(row: Sequence[bytes], now_ms: int) -> Due:
    name, slot, every_ms, expression, zone, catch_up, until = (value.decode(errors="replace") for value in row)
    try:
        slot_ms = int(float(slot))
        schedule = _schedule(every_ms, expression, zone)
        until_ms = int(until) if until else None
        return Due(name, slot, plan(schedule, catch_up_of(catch_up or "one"), slot_ms, now_ms, until_ms))
    except (ValueError, OverflowError, OSError):  # InvalidValue is a ValueError; dates have an end
        return Due(name, slot, None)


def _fire(queue: str, name: str, slot_ms: Arg, what: Plan) -> tuple[Any, Sequence[str], Sequence[Arg]]:
    following: Arg = "" if what.next_ms is None else what.next_ms
    return ENGINE.script("repeat_fire"), (_prefix(queue),), (name, slot_ms, following, *what.fire)


async def _set(
    bus: Connector,
    queue: str,
    repeat: Repeat,
    mode: str,
    *,
    first_in_ms: int | None = None,
    first_at_ms: int | None = None,
) -> bool:
    for what, value, high in (("first_in_ms", first_in_ms, MAX_WAIT_MS), ("first_at_ms", first_at_ms, MAX_LAST_MS)):
        if value is not None:
            validation.integer(what, value, 0, high)
    validation.one_of("repeat", repeat, Repeat)
    schedule = repeat.schedule
    first: Arg = "" if first_at_ms is None else first_at_ms
    if isinstance(schedule, Cron):
        every, expression, zone = "", schedule.expression, schedule.zone
        if first_at_ms is None and first_in_ms is None:
            first = schedule.following(await _now_ms(bus, queue)) or ""
    else:
        every, expression, zone = str(schedule.ms), "", ""
    fields: dict[str, Arg] = {
        "every_ms": every,
        "cron": expression,
        "zone": zone,
        "catch_up": "" if isinstance(repeat.catch_up, One) else repeat.catch_up.wire,
        "until": repeat.until_ms or "",
        "lane": repeat.lane or "",
        "max_attempts": repeat.max_attempts or "",
        "timeout": repeat.timeout_ms or "",
    }
    args: list[Arg] = [repeat.name, mode, first, first_in_ms or 0, MAX_REPEATS, repeat.template]
    for name, value in fields.items():
        args += [name, value]
    return await bus.run(ENGINE.script("repeat_set"), (_prefix(queue),), args) == 1


async def _now_ms(bus: Connector, queue: str) -> int:
    """The clock of the queue's own server."""
    seconds, micros = await bus.at(_prefix(queue), "TIME")
    return int(seconds) * 1000 + int(micros) // 1000


def _schedule(every_ms: str, expression: str, zone: str) -> Schedule:
    return cron(expression, zone or "UTC") if expression else Every(int(every_ms))


def _text(value: bytes | None) -> str:
    return value.decode(errors="replace") if value else ""


def _number(value: bytes | None) -> int | None:
    return int(value) if value else None


def _prefix(queue: str) -> str:
    return keyspace.of(queue).prefix
