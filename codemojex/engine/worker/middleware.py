"""What surrounds every call of a worker's handler: tracing, timing, a database session, whatever each job needs.

A middleware gets the jobs of one call and the rest of the work. It calls the rest, or answers in its stead; what it
raises fails the jobs as if the handler had, and so does an answer that is not one outcome per job. With a per-job
handler there is one job in each call.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import cast

from codemojex.engine import validation
from codemojex.engine.error_text import plain
from codemojex.engine.errors import InvalidValue
from codemojex.engine.jobs.jobs import Job
from codemojex.engine.jobs.outcome import Outcome

Work = Callable[[list[Job]], Awaitable[Sequence[Outcome | None]]]
Middleware = Callable[[list[Job], Work], Awaitable[Sequence[Outcome | None]]]


def wrap(work: Work, layers: Sequence[Middleware]) -> Work:
    """`work` inside `layers`, the first of them outermost; each answers a list as long as that of its jobs."""
    layers = validation.many("middleware", layers)
    for layer in layers:
        validation.awaited("one of middleware", layer)
    wrapped = _counted("the handler", work)
    for layer in reversed(layers):
        wrapped = _counted("a middleware", _inside(layer, wrapped))
    return wrapped


def _inside(layer: Middleware, work: Work) -> Work:
    async def call(jobs: list[Job]) -> Sequence[Outcome | None]:
        return await layer(jobs, work)

    return call


def _counted(who: str, work: Work) -> Work:
    async def call(jobs: list[Job]) -> Sequence[Outcome | None]:
        answered = await work(jobs)
        given = cast("object", answered)  # foreign code may answer anything
        if not isinstance(given, Sequence) or isinstance(given, str | bytes):
            raise InvalidValue(f"{who} answered no list of outcomes: {plain(given)[:80]}")
        if len(answered) != len(jobs):
            raise InvalidValue(f"{who} answered {len(answered)} outcomes for {len(jobs)} jobs")
        return answered

    return call
