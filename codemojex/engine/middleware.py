"""What surrounds every call of a worker's handler: tracing, timing, a database session, whatever each job needs.

A middleware gets the jobs of one call and the rest of the work. It calls the rest, or answers in its stead; what it
raises fails the jobs as if the handler had. With a per-job handler there is one job in each call.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from .jobs import Job
from .outcome import Outcome

Work = Callable[[list[Job]], Awaitable[Sequence[Outcome | None]]]
Middleware = Callable[[list[Job], Work], Awaitable[Sequence[Outcome | None]]]


def wrap(work: Work, layers: Sequence[Middleware]) -> Work:
    """`work` inside `layers`, the first of them outermost."""
    for layer in reversed(layers):
        work = _inside(layer, work)
    return work


def _inside(layer: Middleware, work: Work) -> Work:
    async def call(jobs: list[Job]) -> Sequence[Outcome | None]:
        return await layer(jobs, work)

    return call
