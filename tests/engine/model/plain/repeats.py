"""Jobs that come again: slots follow from the schedule alone, and each fires once among all who look.

`fire_due` needs two calls to the server, so it is a generator that yields before each (see flows).
"""

from __future__ import annotations

from collections.abc import Generator
from datetime import UTC, datetime

from codemojex.engine import ids
from codemojex.engine.jobs.jobs import NewJob
from codemojex.engine.repeats.recurrence import All, CatchUp, Every, One, Schedule, Skip
from codemojex.engine.repeats.repeats import Repeat
from tests.engine.model.plain.admission import admit
from tests.engine.model.plain.state import Fresh, Queue

YEARLY = "0 0 1 1 *"
NODE = 1008


def following(schedule: Schedule, slot: float) -> float:
    """The next slot; of cron expressions the stories know the one for each New Year."""
    if isinstance(schedule, Every):
        return slot + schedule.ms
    year = datetime.fromtimestamp(slot / 1000, UTC).year
    return datetime(year + 1, 1, 1, tzinfo=UTC).timestamp() * 1000


def plan(
    schedule: Schedule, policy: CatchUp, slot: float, now: float, until: float | None
) -> tuple[list[int], float | None]:
    """The slots that fire now, oldest first, and the next one (None: the repeat has ended)."""
    slots: list[float] = []
    while slot <= now:
        slots.append(slot)
        slot = following(schedule, slot)
    fire = [at for at in slots if until is None or at <= until]
    match policy:
        case All(at_most):
            fire = fire[-at_most:]
        case One():
            fire = fire[-1:]
        case Skip(grace_ms):
            fire = [at for at in fire[-1:] if now - at <= grace_ms]
    return [int(at) for at in fire], None if until is not None and slot > until else slot


def _schedule(repeat: dict[str, str]) -> tuple[str | None, ...]:
    return tuple(repeat.get(name) for name in ("every_ms", "cron", "zone"))


def _write(q: Queue, repeat: Repeat, record: dict[str, str]) -> None:
    every = repeat.schedule if isinstance(repeat.schedule, Every) else None
    fields = {
        "template": repeat.template.decode(),
        "every_ms": every and every.ms,
        "cron": None if every else YEARLY,
        "zone": None if every else "UTC",
        "catch_up": None if isinstance(repeat.catch_up, One) else repeat.catch_up.wire,
        "until": repeat.until_ms,
        "lane": repeat.lane,
        "max_attempts": repeat.max_attempts,
        "timeout": repeat.timeout_ms,
    }
    for name, value in fields.items():
        record.pop(name, None)
        if value is not None:
            record[name] = str(value)
    q.repeats[repeat.name] = record


def register(q: Queue, repeat: Repeat, first_in_ms: int | None = None, first_at_ms: int | None = None) -> bool:
    if repeat.name in q.repeats:
        return False
    _write(q, repeat, {})
    number = int(q.meta.get("repeats", 0)) + 1
    q.meta["repeats"] = q.repeats[repeat.name]["n"] = str(number)
    if first_at_ms is not None:
        q.slots[repeat.name] = first_at_ms
    elif first_in_ms is not None or isinstance(repeat.schedule, Every):
        q.slots[repeat.name] = q.world.after(first_in_ms or 0)
    else:
        q.slots[repeat.name] = following(repeat.schedule, q.world.now)
    return True


def update(q: Queue, repeat: Repeat) -> bool:
    """The coming slot stays unless the schedule is another one."""
    if repeat.name not in q.repeats:
        return False
    record = q.repeats[repeat.name]
    before = _schedule(record)
    _write(q, repeat, record)
    if _schedule(record) != before:
        first = following(repeat.schedule, q.world.now)
        q.slots[repeat.name] = Fresh(first) if isinstance(repeat.schedule, Every) else first
    return True


def cancel(q: Queue, name: str) -> bool:
    q.slots.pop(name, None)
    return q.repeats.pop(name, None) is not None


def due(q: Queue, limit: int) -> list[str]:
    return q.ripe(q.slots)[:limit]


def fire(q: Queue, name: str, stood_at: float, slots: list[int], after: float | None) -> list[str]:
    """Fire slots, if the repeat still stands where it stood; the ids of the jobs that came in."""
    if q.slots.get(name) != stood_at:
        return []
    record = q.repeats[name]
    fired: list[str] = []
    for slot in slots:
        tail = NODE * 4096 + int(record["n"])
        job = NewJob(
            ids.encode("JOB", (max(0, slot - ids.EPOCH_MS) << 22) | tail),
            record["template"].encode(),
            record.get("lane"),
            max_attempts=int(record["max_attempts"]) if "max_attempts" in record else None,
            timeout_ms=int(record["timeout"]) if "timeout" in record else None,
        )
        if admit(q, job)[0] == "enqueued":
            fired.append(job.id)
    if after is None:
        cancel(q, name)
    else:
        q.slots[name] = after
    return fired


def fire_due(q: Queue, limit: int, read: dict[str, Repeat]) -> Generator[None, None, object]:
    """The fired jobs by repeat. `read`: the repeats as they were registered."""
    yield
    plans = {name: (q.slots[name], *_plan(q, name, read)) for name in due(q, limit)}
    if not plans:
        return {}
    yield
    fired = {name: fire(q, name, *planned) for name, planned in plans.items()}
    return {name: jobs for name, jobs in fired.items() if jobs}


def _plan(q: Queue, name: str, read: dict[str, Repeat]) -> tuple[list[int], float | None]:
    repeat = read[name]
    return plan(repeat.schedule, repeat.catch_up, q.slots[name], q.world.now, repeat.until_ms)


def advance(q: Queue, name: str, read: dict[str, Repeat]) -> bool:
    """Let the coming slot, and those that are due, pass."""
    if name not in q.slots:
        return False
    repeat, slot = read[name], q.slots[name]
    _, after = plan(repeat.schedule, repeat.catch_up, slot, max(q.world.now, slot), repeat.until_ms)
    fire(q, name, slot, [], after)
    return True
