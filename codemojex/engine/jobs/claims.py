"""Jobs leave the queue here, under a lease and within every limit.

One script hands out up to n jobs: it rotates the ring of serviceable lanes one step per job, lets flat work have its
turn, and spends the queue's budget. The reply also says when to come back, so that a worker can park exactly.
A claim that finds nothing is a normal answer and costs no budget.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from codemojex.engine import keyspace, validation
from codemojex.engine.jobs.jobs import Job
from codemojex.engine.scripts import ENGINE
from codemojex.engine.transport.connector import Connector

MAX_CLAIM = 500
MAX_LEASE_MS = 24 * 3600 * 1000
DEFAULT_BYTES = 1024 * 1024
MAX_BYTES = 512 * 1024 * 1024
MAX_LANE_LIMIT = 1_000_000

Mode = Literal["all", "flat", "lane", "whole"]
_FIELDS = 7
_MAX_DIGITS = 15  # of a number in a row; all of them are exact in Lua


@dataclass(frozen=True, slots=True)
class Claimed:
    """What a claim brought.

    `limited_ms`: the queue's budget is spent, it has a unit again in so many ms (0: it is not the reason).
    `next_due_ms`: so many ms until the next scheduled job or resting lane (None: nothing waits for a time, or the
    claim was filled and did not look). `paused`: the whole queue is. `unreadable`: jobs among them with a number in
    their row that is none; it counts as absent.
    """

    jobs: Sequence[Job] = ()
    limited_ms: int = 0
    next_due_ms: int | None = None
    paused: bool = False
    unreadable: Sequence[str] = ()


async def claim_many(
    bus: Connector,
    queue: str,
    n: int,
    lease_ms: int,
    *,
    max_bytes: int = DEFAULT_BYTES,
    mode: Mode = "all",
    lane_limit: int | None = None,
) -> Claimed:
    """Claim up to `n` jobs of lanes and flat backlog, all under one deadline.

    `max_bytes` bounds the payloads of one claim; the last job may exceed it by its own size. What is due (scheduled
    jobs, resting lanes) comes back first. `lane_limit` is the ceiling of every lane that has none: it holds also while
    the queue's own settings are lost.
    """
    check_claim(n, lease_ms, max_bytes, lane_limit)
    validation.choice("mode", mode, "all", "flat", "lane", "whole")
    prefix = keyspace.of(queue).prefix
    now, reply = await bus.run(ENGINE.script("claim_many"), (prefix,), (n, lease_ms, max_bytes, mode, lane_limit or 0))
    return claimed(queue, now, lease_ms, reply)


async def claim(bus: Connector, queue: str, lease_ms: int) -> Job | None:
    """Claim the head of the flat backlog."""
    jobs = (await claim_many(bus, queue, 1, lease_ms, mode="flat")).jobs
    return jobs[0] if jobs else None


async def claim_batch(bus: Connector, queue: str, size: int, lease_ms: int) -> Sequence[Job]:
    """Claim up to `size` jobs of the flat backlog, oldest first."""
    return (await claim_many(bus, queue, size, lease_ms, mode="flat")).jobs


def check_claim(n: int, lease_ms: int, max_bytes: int, lane_limit: int | None = None) -> None:
    """Raise InvalidValue for what no claim can mean."""
    validation.integer("jobs of a claim", n, 1, MAX_CLAIM)
    check_lease(lease_ms)
    validation.integer("max_bytes", max_bytes, 1, MAX_BYTES)
    if lane_limit is not None:
        validation.integer("lane_limit", lane_limit, 1, MAX_LANE_LIMIT)


def check_lease(lease_ms: int) -> None:
    """Raise InvalidValue for a lease that is not between 1 ms and a day."""
    validation.integer("lease_ms", lease_ms, 1, MAX_LEASE_MS, " (a day)")


def claimed(queue: str, now: int, lease_ms: int, reply: list[Any]) -> Claimed:
    """Read the flat reply of the fragment `claim`; its values are ints and bytes by position.

    All these jobs are in flight by now, so a row that cannot be read must not cost the others their claim.
    """
    until = now + lease_ms
    jobs: list[Job] = []
    unreadable: list[str] = []
    for i in range(3, len(reply), _FIELDS):
        job_id, payload, token, lane, *counts, limit = reply[i : i + _FIELDS]
        failures, stalled = (_number(text) for text in counts)
        timeout_ms = _number(limit)
        jobs.append(
            Job(
                id=_text(job_id),
                payload=payload,
                token=_text(token),
                lane=_text(lane) or None,
                failures=failures or 0,
                stalled=stalled or 0,
                queue=queue,
                lease_until_ms=until,
                timeout_ms=timeout_ms,
            )
        )
        if failures is None or stalled is None or (limit and timeout_ms is None):
            unreadable.append(jobs[-1].id)
    return Claimed(jobs, reply[0], reply[1] if reply[1] >= 0 else None, reply[2] == 1, unreadable)


def _text(value: bytes) -> str:
    return value.decode(errors="replace")


def _number(text: bytes) -> int | None:
    """The whole number that `text` is; None for anything else."""
    return int(text) if text.isdigit() and len(text) <= _MAX_DIGITS else None
