"""An operator's verbs: cancel, remove, drain, move, reprocess, trim, obliterate; marks and notes on a job."""

from __future__ import annotations

from tests.engine.model.plain import flows
from tests.engine.model.plain.state import Queue

WEEK = 7 * 24 * 3_600_000


def erase(q: Queue, job_id: str) -> None:
    """The job stands nowhere any more; a parent hears that it was removed, unless it heard of its death before."""
    row = q.rows[job_id]
    link = flows.link_of(row)
    q.free_key(row.get("dedup"), job_id)
    q.drop(job_id)
    if link and row.state != "dead":
        flows.failed_as(q, job_id, link, "removed")


def remove(q: Queue, job_id: str, key: str | None = None) -> str:
    row = q.rows.get(job_id)
    if row is None:
        return "gone"
    if job_id in q.locks or "lock" in row:
        return "locked"
    lane = row.lane
    held = q.active.pop(job_id, None) is not None
    waits = lane and job_id in q.lanes[lane]
    q.take_out(job_id)
    if waits:
        q.lanes[lane].add(job_id)  # its parent hears of it while the job still stands in its lane
    q.free_key(key, job_id)
    erase(q, job_id)
    if lane:
        q.lanes[lane].discard(job_id)
        q.seats[lane] -= held
        q.changed(lane)
    return "removed"


def drain(q: Queue, *, schedule: bool, limit: int) -> int:
    """Delete flat jobs, and scheduled ones if asked."""
    chosen = q.backlog(None)[:limit]
    if schedule:
        later = sorted(q.schedule, key=lambda i: (q.schedule[i], i))
        chosen_later = later[: limit - len(chosen)]
    else:
        chosen_later = []
    for some in (chosen, chosen_later):
        for job_id in some:
            q.take_out(job_id)
        for job_id in some:
            erase(q, job_id)
    return len(chosen) + len(chosen_later)


def drain_lane(q: Queue, lane: str, limit: int) -> int:
    chosen = q.backlog(lane)[:limit]
    for job_id in chosen:
        q.take_out(job_id)
    q.changed(lane)
    for job_id in chosen:
        erase(q, job_id)
    return len(chosen)


def trim_dead(q: Queue, keep: int, before: str | None, limit: int) -> int:
    """Delete the oldest dead letters beyond `keep`, or all that were minted before an id, whichever are more."""
    dead = sorted(q.dead)
    chosen = dead[: min(limit, max(0, len(dead) - keep))]
    old = [i for i in dead if before and i < before][:limit]
    for job_id in max(chosen, old, key=len):
        q.dead.remove(job_id)
        erase(q, job_id)
    return max(len(chosen), len(old))


def cancel(q: Queue, job_id: str, reason: str) -> str:
    row = q.rows.get(job_id)
    if row is None:
        return "gone"
    if row.state == "dead":
        return "dead"
    if job_id in q.active:
        if "cancel" not in row:
            row["cancel"] = reason
            row.setdefault("last_error", f"asked to cancel: {reason}")
            q.world.heard.append((q.name, {"event": "cancel", "job": job_id, "reason": reason}))
        return "asked"
    q.take_out(job_id)
    q.changed(row.lane)
    if "dedup_ms" not in row:
        q.free_key(row.get("dedup"), job_id)
    flows.die(q, job_id, f"cancelled: {reason}")
    return "cancelled"


def reprocess(q: Queue, job_id: str) -> str:
    row = q.rows.get(job_id)
    if row is None:
        return "gone"
    if job_id not in q.dead:
        return "not dead"
    q.dead.remove(job_id)
    for name in ("last_error", "failures", "stalled", "lapsed", "expires_at", "cancel"):
        row.pop(name, None)
    row["counted"] = row.token
    q.put(job_id)
    return "waits"


def move(q: Queue, job_id: str, to: str) -> str:
    row = q.rows.get(job_id)
    if row is None or row.lane is None:
        return "not_found"
    if row.lane == to:
        return "noop"
    if job_id not in q.lanes[row.lane]:
        return "not_pending"
    origin = row.lane
    q.lanes[origin].remove(job_id)
    row["group"] = to
    q.put(job_id)
    q.changed(origin)
    return "moved"


def obliterate(q: Queue) -> None:
    """Everything goes but streams, effects' keys, and what ends by itself; parents elsewhere hear of it."""
    by_time = [
        sorted(times, key=lambda i, t=times: (t[i], i)) for times in (q.active, q.schedule, q.resting, q.parents)
    ]
    active, schedule, resting, parents = by_time
    lanes = list(dict.fromkeys([*q.ring, *sorted(q.paused), *resting, *sorted(g for g, n in q.seats.items() if n)]))
    order = [*active, *q.backlog(None), *schedule, *sorted(q.dead), *(i for lane in lanes for i in q.backlog(lane))]
    for job_id in [*order, *parents]:
        if job_id in q.rows:
            _erase_all(q, job_id)
    calls = flows.deliver(q, 500)
    for _ in calls:
        pass
    for lane in lanes:
        q.arrivals.pop(f"pace:{lane}", None)
        q.lives.pop(f"pace:{lane}", None)
    for name in ("limiter", "credit", "turns"):
        q.lives.pop(name, None)
    paces = {key: at for key, at in q.arrivals.items() if key != "limiter"}
    keep = ("name", "world", "dedup", "done", "locks", "logs", "lives", "notes", "events", "parts")
    q.__init__(**{name: getattr(q, name) for name in keep}, arrivals=paces)


def _erase_all(q: Queue, job_id: str) -> None:
    row = q.rows[job_id]
    link = flows.link_of(row)
    q.free_key(row.get("dedup"), job_id)
    q.drop(job_id)
    if not link or row.state == "dead":
        return
    if link.queue:
        flows.failed_as(q, job_id, link, "removed")
    elif (parent := q.rows.get(link.parent)) is not None and parent.state == "awaiting_children":
        _erase_all(q, link.parent)


# marks and notes


def mark(q: Queue, job_id: str, token: str, ttl_ms: int) -> bool:
    """Nobody removes a marked job, for so long."""
    if job_id not in q.active:
        return False
    q.locks[job_id] = q.rows[job_id]["lock"] = token
    q.live(f"job:{job_id}:lock", ttl_ms)
    return True


def unmark(q: Queue, job_id: str, token: str) -> bool:
    row, mine = q.rows.get(job_id), False
    if q.locks.get(job_id) == token:
        mine = True
        del q.locks[job_id], q.lives[f"job:{job_id}:lock"]
    if row is not None and row.get("lock") == token:
        mine = True
        del row["lock"]
    return mine


def log(q: Queue, job_id: str, line: str, keep: int) -> int | None:
    if job_id not in q.rows:
        return None
    lines = q.logs.setdefault(job_id, [])
    lines.append(line)
    if keep:
        del lines[:-keep]
    q.live(f"job:{job_id}:logs", WEEK)
    return len(lines)


def progress(q: Queue, job_id: str, progress: str) -> bool:
    if job_id not in q.rows:
        return False
    q.rows[job_id]["progress"] = progress
    q.world.heard.append((q.name, {"event": "progress", "job": job_id, "progress": progress}))
    return True
