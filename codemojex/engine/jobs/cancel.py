"""Asking work to end: tokens inside a process, a request that finds the worker from anywhere.

`request` ends a waiting job at once and has a running one told: its worker sees the request when it renews the lease,
or at once when it listens. The job's token is cancelled and its handler's task is cancelled with the reason; unless
the handler catches that and answers itself, the job becomes a dead letter with `cancelled: <reason>`. A request is
kept in the row, so a job whose worker dies first ends at its next claim. Completion in time wins.
"""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass
from enum import Enum

from codemojex.engine import ids, keyspace, validation
from codemojex.engine.errors import WorkCancelled
from codemojex.engine.jobs import pubsub
from codemojex.engine.jobs.jobs import Job
from codemojex.engine.scripts import ENGINE
from codemojex.engine.transport.connector import Connector

MAX_REASON = 500
EVENT = "cancel"


class CancelToken:
    """A flag with a reason that one side raises and the other side looks at. The first reason stays."""

    def __init__(self) -> None:
        self._reason: str | None = None

    def cancel(self, reason: str = "cancelled") -> None:
        """Raise the flag; a second call changes nothing."""
        if self._reason is None:
            self._reason = reason

    def check(self) -> str | None:
        """The reason, or None while nobody cancelled. Looking consumes nothing."""
        return self._reason

    def require(self) -> None:
        """Raise WorkCancelled, with the reason, if somebody cancelled."""
        if self._reason is not None:
            raise WorkCancelled(self._reason)


class Answer(Enum):
    """What a request found: a job that waited and is dead now, one in flight, a dead letter, or no job."""

    CANCELLED = "cancelled"
    ASKED = "asked"
    DEAD = "dead"
    GONE = "gone"


async def request(bus: Connector, queue: str, job_id: str, reason: str) -> Answer:
    """Ask for the end of a job, whoever has it. Its parent in a flow hears of a failure.

    The first request for a job in flight counts; a second one is answered alike and changes nothing.
    """
    validation.text("reason", reason, 1, MAX_REASON)
    args = (ids.require(job_id), reason, pubsub.encode(EVENT, job_id, reason=reason))
    return Answer((await bus.run(ENGINE.script("cancel"), (keyspace.of(queue).prefix,), args)).decode())


@dataclass(frozen=True, slots=True)
class _Held:
    job_id: str
    token: str
    flag: CancelToken


_current: ContextVar[tuple[_Held, ...]] = ContextVar("codemojex.engine.jobs.cancel", default=())


def token_of(job: Job) -> CancelToken:
    """The token of a job that the calling handler works on; outside of a worker one that nobody cancels."""
    for held in _current.get():
        if (held.job_id, held.token) == (job.id, job.token):
            return held.flag
    return CancelToken()


def hold(tokens: dict[tuple[str, str], CancelToken]) -> None:
    """Let `token_of` find these tokens, by job id and claim, in the present task. For workers."""
    _current.set(tuple(_Held(*key, flag) for key, flag in tokens.items()))
