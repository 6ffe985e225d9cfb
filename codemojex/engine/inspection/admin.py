"""An operator's verbs: stop a queue, look at a job, clean up.

Everything that deletes is bounded per call to the server. Jobs in flight are never touched unless the verb says so.
"""

from __future__ import annotations

from collections.abc import Mapping

from codemojex.engine import ids, keyspace, validation
from codemojex.engine.flows import outbox
from codemojex.engine.jobs import registry
from codemojex.engine.jobs.jobs import MAX_LAST_MS, MAX_PAYLOAD
from codemojex.engine.scripts import ENGINE
from codemojex.engine.transport.connector import Connector

_STEP = 500
MOST = 1_000_000_000
_OUTBOX_ONLY = 2  # of the obliterate script


async def pause(bus: Connector, queue: str) -> None:
    """Hand out nothing more; what is in flight may finish. A second call changes nothing."""
    await bus.run(ENGINE.script("configure"), (_prefix(queue),), ("paused", 1))


async def resume(bus: Connector, queue: str) -> None:
    """Hand out jobs again, and wake a parked worker."""
    await bus.run(ENGINE.script("configure"), (_prefix(queue),), ("paused", ""))


async def drain(bus: Connector, queue: str, *, include_schedule: bool = False, limit: int = 100_000) -> int:
    """Delete the waiting flat jobs, and the scheduled ones if asked; how many. Lanes have `lanes.drain`."""
    script = ENGINE.script("drain")
    validation.integer("limit", limit, 0, MOST)
    validation.flag("include_schedule", include_schedule)
    total = 0
    for name in ("pending", "schedule")[: 1 + include_schedule]:
        while total < limit:
            step = min(_STEP, limit - total)
            deleted = await bus.run(script, (_prefix(queue),), (name, step))
            total += deleted
            if deleted < step:
                break
    return total


async def obliterate(bus: Connector, queue: str, *, force: bool = False, budget: int = 1000) -> bool:
    """Delete the whole paused queue except its streams; True when nothing is left, else call again.

    At most `budget` jobs per call. Parents in other queues hear that their children were removed, and what their
    children ended with before. Raises WrongState when the queue is not paused, or when jobs are in flight without
    `force`.
    """
    validation.integer("budget", budget, 1, 5000)
    validation.flag("force", force)
    script, keys, args = ENGINE.script("obliterate"), (_prefix(queue),), (int(force), budget)
    left = await bus.run(script, keys, args)
    if left == _OUTBOX_ONLY:
        await outbox.deliver(bus, queue, _STEP)
        left = await bus.run(script, keys, args)
    if left == 0:
        await registry.forget(bus, queue)
    return left == 0


async def get_job(bus: Connector, queue: str, job_id: str) -> Mapping[str, bytes] | None:
    """The job's row, or None."""
    row = await bus.execute("HGETALL", keyspace.of(queue).row(job_id))
    return {field.decode(): value for field, value in row.items()} if row else None


async def get_job_state(bus: Connector, queue: str, job_id: str) -> str:
    """`pending`, `active`, `scheduled`, `dead`, `awaiting_children`, `unknown` (in no set) or `absent`."""
    return (await bus.run(ENGINE.script("job_state"), (_prefix(queue),), (ids.require(job_id),))).decode()


async def update_data(bus: Connector, queue: str, job_id: str, payload: bytes) -> bool:
    """Replace a job's payload; False when there is no such job."""
    validation.data("payload", payload, MAX_PAYLOAD)
    return await bus.run(ENGINE.script("update_data"), (_prefix(queue),), (ids.require(job_id), payload)) == 1


async def remove_job(bus: Connector, queue: str, job_id: str, dedup: str | None = None) -> bool:
    """Delete a job wherever it is, and its idempotency key; False when there is no such job. Raises Locked."""
    key = "" if dedup is None else keyspace.dedup_key(dedup)
    return await bus.run(ENGINE.script("remove_job"), (_prefix(queue),), (ids.require(job_id), key)) == 1


async def reprocess(bus: Connector, queue: str, job_id: str) -> bool:
    """Give a dead letter another life in its lane; False when there is no such job. Raises WrongState if not dead.

    Failures, lapsed leases and an expiry are forgotten; the token goes on counting.
    """
    return await bus.run(ENGINE.script("reprocess"), (_prefix(queue),), (ids.require(job_id),)) == 1


async def trim_dead(
    bus: Connector, queue: str, *, keep: int = 10_000, minted_before_ms: int | None = None, limit: int = 5000
) -> int:
    """Delete dead letters beyond the newest `keep`, and those minted before an instant; how many, `limit` at most."""
    validation.integer("keep", keep, 0, MOST)
    validation.integer("limit", limit, 0, MOST)
    if minted_before_ms is not None:
        validation.integer("minted_before_ms", minted_before_ms, 0, MAX_LAST_MS)
    before = (
        ""
        if minted_before_ms is None
        else ids.encode("JOB", min(max(0, ids.min_for(minted_before_ms)), ids.MAX_SNOWFLAKE))
    )
    total = 0
    while total < limit:
        step = min(_STEP, limit - total)
        deleted = await bus.run(ENGINE.script("trim_dead"), (_prefix(queue),), (keep, before, step))
        total += deleted
        if deleted < step:
            break
    return total


async def browse(bus: Connector, queue: str, n: int = 20, *, dead: bool = False) -> list[str]:
    """The newest `n` ids of the flat backlog, or of the dead letters."""
    validation.integer("n", n, 0, 10_000)
    validation.flag("dead", dead)
    key = keyspace.of(queue).key("dead" if dead else "pending")
    return [i.decode() for i in await bus.execute("ZRANGE", key, "+", "-", "BYLEX", "REV", "LIMIT", 0, n)]


async def get_dedup(bus: Connector, queue: str, key: str) -> str | None:
    """The job that holds an idempotency key, or None."""
    holder = await bus.execute("GET", keyspace.of(queue).dedup(key))
    return holder.decode() if holder is not None else None


def _prefix(queue: str) -> str:
    return keyspace.of(queue).prefix
