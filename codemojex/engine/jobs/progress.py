"""What a job's handler notes on its job while it works: how far it is, and a log.

Nothing here is fenced by a token: notes are for people. A note on a job that is not there makes nothing and says so.
Logs are bounded in lines and in the length of a line, and expire when nobody writes any more. The payload is replaced
by `admin.update_data`.
"""

from __future__ import annotations

from codemojex.engine import ids, keyspace, validation
from codemojex.engine.jobs import pubsub
from codemojex.engine.scripts import ENGINE
from codemojex.engine.transport.connector import Connector

KEEP = 1_000
MAX_KEEP = 100_000
MAX_LINE = 4_096
LOG_LIFE_MS = 7 * 24 * 3600 * 1000


async def update_progress(bus: Connector, queue: str, job_id: str, progress: str) -> bool:
    """Write the job's field `progress` and publish the event in one step; False when there is no such job."""
    validation.text("progress", progress, 0, MAX_LINE)
    args = (job_id, progress, pubsub.encode("progress", job_id, progress=progress))
    return await bus.run(ENGINE.script("progress"), (keyspace.of(queue).prefix,), args) == 1


async def add_log(bus: Connector, queue: str, job_id: str, line: str, *, keep: int = KEEP) -> int | None:
    """Append a line and keep the last `keep` (0: all of them); how many there are now, None for an unknown job.

    The log lives `LOG_LIFE_MS` from the last line on, also after the job was completed; a removed job takes it along.
    """
    validation.integer("keep", keep, 0, MAX_KEEP)
    validation.text("line", line, 0, MAX_LINE)
    args = (ids.require(job_id), line, keep, LOG_LIFE_MS)
    length = await bus.run(ENGINE.script("log_add"), (keyspace.of(queue).prefix,), args)
    return None if length < 0 else length


async def get_logs(bus: Connector, queue: str, job_id: str, first: int = 0, last: int = -1) -> list[str] | None:
    """The job's lines, oldest first, from `first` to `last` (-1: the end); None for an unknown job.

    A log outlives its job's completion until its own life ends.
    """
    validation.integer("first", first, -MAX_KEEP, MAX_KEEP)
    validation.integer("last", last, -MAX_KEEP, MAX_KEEP)
    args = (ids.require(job_id), first, last)
    lines = await bus.run(ENGINE.script("log_read"), (keyspace.of(queue).prefix,), args)
    return None if isinstance(lines, int) else [line.decode(errors="replace") for line in lines]
