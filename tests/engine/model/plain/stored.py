"""The keys that a server must hold for what the model knows, and the comparison with those that it holds.

Everything is compared: every key of the database, its type and value, the order of lists and sorted sets, scores, and
when it ends. A time that was reckoned in this step may be later by as much as the step took; then it is exact.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from codemojex.engine import ids
from tests.engine.model.plain.limits import SLOW
from tests.engine.model.plain.state import Fresh, Queue, World

Stored = dict[str, Any]  # str, list of str, set of str, dict of str or of float


def keys_of(q: Queue) -> Stored:
    """Every key of the queue by its name behind the prefix; an empty one is not there."""
    rows = {f"job:{job_id}": row for job_id, row in q.rows.items()}
    parts: Stored = {}
    for key, row in rows.items():
        if row.left is not None:
            parts[f"{key}:dependencies"] = str(row.left)
        parts |= {f"{key}:processed": row.processed, f"{key}:failed": row.failed, f"{key}:unsuccessful": row.ignored}
    stored: Stored = {
        **rows,
        **parts,
        **{f"job:{job_id}:logs": lines for job_id, lines in q.logs.items()},
        **{f"job:{job_id}:lock": token for job_id, token in q.locks.items()},
        "pending": dict.fromkeys(sorted(q.pending), 0.0),
        "dead": dict.fromkeys(sorted(q.dead), 0.0),
        **{f"g:{lane}:pending": dict.fromkeys(sorted(some), 0.0) for lane, some in q.lanes.items()},
        "ring": q.ring,
        "gactive": {lane: str(n) for lane, n in q.seats.items() if n},
        "paused": q.paused,
        "glimit": {lane: str(n) for lane, n in q.limits.items()},
        "gdefault": {lane: str(n) for lane, n in q.defaulted.items()},
        "gweight": {lane: str(n) for lane, n in q.weights.items()},
        "grate": q.rates,
        "credit": f"{q.credit[0]}:{q.credit[1]}" if q.credit else "",
        "turns": str(q.turns) if "turns" in q.lives else "",
        "meta": q.meta,
        **{f"de:{key}": holder for key, holder in q.dedup.items()},
        **{f"done:{key}": holder for key, holder in q.done.items()},
        "wake": ["1"] * q.wakes,
        **{f"metrics:{name}": {"count": str(n)} for name, n in q.totals.items() if n},
        **{f"repeat:{name}": record for name, record in q.repeats.items()},
        "kin": dict.fromkeys(sorted(i for i, row in q.rows.items() if row.left is not None), 0.0),
        "flow:outbox": q.outbox,
        "flow:sent": str(q.sent) if q.sent else "",
        **{f"job:{job_id}:part": life for job_id, life in q.parts.items()},
        "notes": {name: str(n) for name, n in q.notes.items()},
    }
    if q.spent:
        stored["limiter"] = str(q.spent)
    return {key: value for key, value in stored.items() if value}


def times_of(q: Queue) -> dict[str, dict[str, float]]:
    """The sorted sets whose scores are times."""
    rests = {"resting": q.resting, "parked": q.parked}
    return {"schedule": q.schedule, "active": q.active, **rests, "repeat": q.slots, "parents": q.parents}


def compare(world: World, prefixes: Mapping[str, str], found: Stored, ends: dict[str, float], now: float) -> None:
    """Fail where server and model differ; the model's clock and fresh times become the server's."""
    said: Stored = {"{emq}:queues": world.listed} if world.listed else {}
    for name, q in world.queues.items():
        prefix, slack = prefixes[name], now - world.now
        _two_lists_of_repeats(q, found, prefix)
        for key, times in times_of(q).items():
            agree(times, found.pop(prefix + key, {}), slack, key)
        said_ms = {key: found.pop(prefix + key).split(":") for key in q.arrivals if prefix + key in found}
        assert all(float(rate) == SLOW for _, *rates in said_ms.values() for rate in rates)
        buckets = {key: float(ms) for key, (ms, *_) in said_ms.items()}
        agree(q.arrivals, buckets, slack, "bucket", give=0.001)
        mine = {key.removeprefix(prefix): ends.pop(key) for key in [key for key in ends if key.startswith(prefix)]}
        marks = {key[:-1]: mine.pop(key) for key in [key for key in mine if key.endswith("!")]}
        assert marks == {f"job:{i}": mine.get(f"job:{i}:lock") for i, row in q.rows.items() if "lock" in row}
        agree(q.lives, mine, slack, "life", give=1)
        _events(q, found.pop(f"{prefix}stream:done", [[]])[0], found.pop(f"{prefix}stream:cell", ""))
        _lives_of_flows(q, found, prefix)
        said |= {prefix + key: value for key, value in keys_of(q).items()}
    assert found == said, "\n".join(
        f"{key}: server {found.get(key)!r}, model {said.get(key)!r}"
        for key in sorted(found.keys() | said.keys())
        if found.get(key) != said.get(key)
    )
    for key, value in said.items():
        if isinstance(value, dict) and (key.endswith(":pending") or key.endswith(("}:pending", "}:dead"))):
            assert list(found[key]) == list(value), key
    assert not ends, ends
    world.now = now


def agree(said: dict[str, float], found: dict[str, float], slack: float, what: str, give: float = 0) -> None:
    """The same names and times; a fresh one may be later by `slack`, and becomes what was found."""
    assert found.keys() == said.keys(), f"{what}: server {sorted(found)}, model {sorted(said)}"
    for name, at in found.items():
        low, high = said[name] - give, said[name] + give
        high += slack if isinstance(said[name], Fresh) else 0
        assert low <= at <= high, f"{what} of {name}: server {at}, model {said[name]}"
        said[name] = at


def _two_lists_of_repeats(q: Queue, found: Stored, prefix: str) -> None:
    """A peer's list holds what it can read, ours the rest; from here on they are one."""
    own = found.pop(f"{prefix}repeat_ours", {})
    assert own.keys() == {name for name in q.slots if not q.repeats[name].keys() <= {"every_ms", "template", "n"}}
    if own:
        shared = found.setdefault(f"{prefix}repeat", {})
        assert not shared.keys() & own.keys()
        shared |= own


def _lives_of_flows(q: Queue, found: Stored, prefix: str) -> None:
    """A flow's life is numbered by the server: the model's number gives way to it, everywhere the same."""
    real = q.world.real
    for job_id, row in q.rows.items():
        if row.get("flow") in real:
            row["flow"] = _real(real, row["flow"], found.get(f"{prefix}job:{job_id}", {}).get("flow"))
    for job_id, life in q.parts.items():
        if life in real:
            q.parts[job_id] = _real(real, life, found.get(f"{prefix}job:{job_id}:part"))


def _real(real: dict[str, str], name: str, found: str | None) -> str:
    real[name] = real[name] or found or ""
    return real[name]


def _events(q: Queue, entries: list[Any], cell: str) -> None:
    """What effects appended: one record each, in order, under rising ids that say their place."""
    bare = [dict(zip(fields[::2], fields[1::2], strict=True)) for _, fields in entries]
    assert [record["data"] for record in bare] == q.events
    places = [tuple(map(int, at.split("-"))) for at, _ in entries]
    assert places == sorted(set(places))
    for (at, _), record in zip(entries, bare, strict=True):
        assert ids.parse(record["id"]).stream_id == at
    assert cell == (entries[-1][0] if entries else "")
