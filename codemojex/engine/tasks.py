"""A handler that knows its queue: `@task("mail", concurrency=8)` above an async function of a job.

The function can be called as before; beside that it admits jobs to its queue and makes workers of it. What a worker
needs of the program around it (effects, middleware, an observer) is given when it is made. Nothing is registered and
nothing starts by itself: a task is an object and no more.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Concatenate, ParamSpec

from . import bounds, jobs, keyspace
from .connector import Connector
from .effects import EffectBody
from .errors import InvalidValue
from .jobs import Job, NewJob, Verdict
from .middleware import Middleware
from .observing import Observe
from .outcome import Outcome
from .worker import Handler, Worker, WorkerOptions

_P = ParamSpec("_P")


class Task:
    """A handler with its queue and its options. Made by `task`."""

    def __init__(self, queue: str, handler: Handler, options: WorkerOptions) -> None:
        """Raises InvalidValue when `handler` is no async function."""
        if not inspect.iscoroutinefunction(handler):
            raise InvalidValue(f"a task must be an async function, not {bounds.shown(handler)}: write `async def`")
        self.queue = queue
        self.options = options
        self._handler = handler
        functools.update_wrapper(self, handler)

    async def __call__(self, job: Job) -> Outcome | None:
        """Do the work of one job here and now, without a queue; what the function returns and raises."""
        return await self._handler(job)

    async def enqueue(self, bus: Connector, job_id: str, payload: bytes) -> Verdict:
        """Admit a flat job at once, see `jobs.enqueue`."""
        return await jobs.enqueue(bus, self.queue, job_id, payload)

    async def admit(self, bus: Connector, job: NewJob) -> Verdict:
        """Admit a job with a lane, a delay …, see `jobs.admit`."""
        return await jobs.admit(bus, self.queue, job)

    def worker(
        self,
        bus: Connector,
        *,
        effects: Sequence[EffectBody] = (),
        observe: Observe | None = None,
        middleware: Sequence[Middleware] = (),
    ) -> Worker:
        """A worker of this task, the same as one made by hand."""
        return Worker(
            bus,
            self.queue,
            self._handler,
            options=self.options,
            effects=effects,
            observe=observe,
            middleware=middleware,
        )


def _with(options: Callable[_P, WorkerOptions]) -> Callable[Concatenate[str, _P], Callable[[Handler], Task]]:
    def task(queue: str, /, *args: _P.args, **kwargs: _P.kwargs) -> Callable[[Handler], Task]:
        """Make an async function of a job the `Task` of a queue; the other arguments are those of WorkerOptions.

        Raises InvalidName or InvalidValue, before there is a task, for a queue or an option that cannot be.
        """
        keyspace.of(queue)
        chosen = options(*args, **kwargs)
        return lambda handler: Task(queue, handler, chosen)

    return task


task = _with(WorkerOptions)
