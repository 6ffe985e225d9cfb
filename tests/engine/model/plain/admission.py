"""A job comes in, once: the same id again is a duplicate or a conflict, and so is an idempotency key that is held."""

from __future__ import annotations

from dataclasses import dataclass

from codemojex.engine.jobs.jobs import NewJob
from tests.engine.model.plain.state import Queue, Row


@dataclass(frozen=True)
class Link:
    """What a child's row says of its parent; `queue` None: the same one; `policy`: `fp` or `id`."""

    parent: str
    queue: str | None
    policy: str


def admit(
    q: Queue, job: NewJob, link: Link | None = None, children: int = 0, life: str | None = None
) -> tuple[str, str]:
    """What happened, and the id that holds the place. Nothing is written for a duplicate or a conflict."""
    now, payload = q.world.now, job.payload.decode()
    if job.id in q.rows:
        return ("duplicate" if q.rows[job.id]["payload"] == payload else "conflict"), job.id
    due = job.run_at_ms if job.run_at_ms is not None else q.world.after(job.delay_ms) if job.delay_ms else None
    key = job.dedup
    if key:
        if holder := q.holder(key.key):
            return "duplicate", holder
        q.dedup[key.key] = job.id
        q.live(f"de:{key.key}", key.window_ms + max(0, (due or now) - now))
    row = {
        "state": "pending",
        "attempts": "0",
        "payload": payload,
        "group": job.lane,
        "max_attempts": job.max_attempts,
        "backoff": job.backoff and job.backoff.wire,
        "timeout_ms": job.timeout_ms,
        "expires_at": job.expires_at_ms,
        "dedup": key and key.key,
        "dedup_ms": key.window_ms if key and key.release == "window" else None,
        "trace": job.trace,
        "parent": link and link.parent,
        "parent_queue": link and link.queue,
        "parent_policy": link and link.policy,
        "children": children or None,
        "flow": life,
    }
    q.rows[job.id] = Row({name: str(value) for name, value in row.items() if value is not None})
    if children:
        q.rows[job.id]["state"] = "awaiting_children"
        q.rows[job.id].left = children
        q.parents[job.id] = q.world.after(0)
        return "held", job.id
    if due is not None:
        q.put_off(job.id, due)
        return "scheduled", job.id
    q.put(job.id)
    return "enqueued", job.id
