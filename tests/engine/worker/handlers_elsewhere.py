"""Plain handlers at the top of a module, where another process finds them."""

from __future__ import annotations

import os
import time

from codemojex.engine.jobs.jobs import Job
from codemojex.engine.jobs.outcome import Complete, Discard, Outcome, Retry
from codemojex.engine.worker.task import batch_task, task


class OddError(Exception):
    """An error that pickle cannot make again."""

    def __init__(self, one: str, two: str) -> None:
        super().__init__(f"{one} and {two}")


def pid(job: Job) -> Outcome:
    """What its payload says."""
    match job.payload:
        case b"die":
            os._exit(7)
        case b"odd":
            raise OddError("this", "that")
        case b"hang":
            time.sleep(600)
        case _:
            return Complete(result=str(os.getpid()).encode())
    return Discard("unreachable")


@task("elsewhere", runs_in="process", concurrency=2)
def named(job: Job) -> Outcome | None:
    """A task in a process."""
    return Retry("not there") if job.payload == b"retry" else Complete(result=str(os.getpid()).encode())


@batch_task("elsewhere", runs_in="process", min_size=2, timeout_ms=100)
def many(jobs: list[Job]) -> dict[str, Outcome | None]:
    """A batch in a process."""
    return {job.id: Complete(result=str(os.getpid()).encode()) for job in jobs}


async def coroutine(job: Job) -> None:
    """A handler for the event loop only."""
