"""Handlers that know their queue: `@task("mail", concurrency=8)` above a function of a job, `@batch_task` of a batch.

The function is async, or a plain one that runs in a thread or a process. It can be called as before; it also admits
jobs to its queue and makes workers of it. What a worker needs of the program around it (effects, middleware, an
observer) is given when it is made. Nothing is registered and nothing starts by itself: a task is an object and no more.
"""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar, cast

from codemojex.engine import keyspace
from codemojex.engine.jobs import jobs
from codemojex.engine.jobs.effects import EffectBody
from codemojex.engine.jobs.jobs import Job, NewJob, Verdict
from codemojex.engine.jobs.outcome import Outcome
from codemojex.engine.observer import Observe
from codemojex.engine.transport.connector import Connector
from codemojex.engine.worker.batch_worker import BatchHandler, BatchOptions, BatchWorker, Partition, Verdicts
from codemojex.engine.worker.calling import is_plain
from codemojex.engine.worker.middleware import Middleware
from codemojex.engine.worker.processes import Named
from codemojex.engine.worker.worker import Handler, Worker, WorkerOptions

_P = ParamSpec("_P")
_Options = TypeVar("_Options", WorkerOptions, BatchOptions)
_Answer = TypeVar("_Answer")


class _Task(Named, Generic[_Options]):
    """A function with its queue and its options."""

    def __init__(self, queue: str, handler: Callable[[Any], Any], options: _Options) -> None:
        """Raises InvalidValue when `handler` is not a function."""
        is_plain("a task", handler, options.runs_in)  # whether a process finds it is known once it has its name
        self.queue = queue
        self.options = options
        self.function = handler
        functools.update_wrapper(cast("Any", self), handler)

    async def enqueue(self, bus: Connector, job_id: str, payload: bytes) -> Verdict:
        """Admit a flat job at once, see `jobs.enqueue`."""
        return await jobs.enqueue(bus, self.queue, job_id, payload)

    async def admit(self, bus: Connector, job: NewJob) -> Verdict:
        """Admit a job with a lane, a delay …, see `jobs.admit`."""
        return await jobs.admit(bus, self.queue, job)


class Task(_Task[WorkerOptions], Generic[_Answer]):
    """A handler of single jobs. Made by `task`."""

    def __call__(self, job: Job) -> _Answer:
        """Do the work of one job here and now, without a queue; what the function returns and raises."""
        return cast("_Answer", self.function(job))

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
            cast("Handler", self),
            options=self.options,
            effects=effects,
            observe=observe,
            middleware=middleware,
        )


class BatchTask(_Task[BatchOptions], Generic[_Answer]):
    """A handler of batches, which answers a verdict per member. Made by `batch_task`."""

    def __call__(self, jobs: Sequence[Job]) -> _Answer:
        """Do the work of a batch here and now, without a queue; what the function returns and raises."""
        return cast("_Answer", self.function(jobs))

    def worker(
        self,
        bus: Connector,
        *,
        effects: Sequence[EffectBody] = (),
        observe: Observe | None = None,
        middleware: Sequence[Middleware] = (),
        on_settled: Callable[[Partition], None] | None = None,
    ) -> BatchWorker:
        """A batch worker of this task, the same as one made by hand."""
        return BatchWorker(
            bus,
            self.queue,
            cast("BatchHandler", self),
            options=self.options,
            effects=effects,
            observe=observe,
            middleware=middleware,
            on_settled=on_settled,
        )


_One = TypeVar("_One", bound="Awaitable[Outcome | None] | Outcome | None")
_Many = TypeVar("_Many", bound="Awaitable[Verdicts] | Verdicts")


class _Decorate(Generic[_Options]):
    """What stands above a function."""

    def __init__(self, queue: str, options: _Options) -> None:
        self._queue = keyspace.of(queue).queue
        self._options = options


class _Single(_Decorate[WorkerOptions]):
    def __call__(self, handler: Callable[[Job], _One]) -> Task[_One]:
        return Task(self._queue, handler, self._options)


class _Batch(_Decorate[BatchOptions]):
    def __call__(self, handler: Callable[[list[Job]], _Many]) -> BatchTask[_Many]:
        return BatchTask(self._queue, handler, self._options)


def _with(options: Callable[_P, WorkerOptions]) -> Callable[Concatenate[str, _P], _Single]:
    def task(queue: str, /, *args: _P.args, **kwargs: _P.kwargs) -> _Single:
        """Make a function of a job the `Task` of a queue; the other arguments are those of WorkerOptions.

        Raises InvalidName or InvalidValue, before there is a task, for a queue or an option that cannot be.
        """
        return _Single(queue, options(*args, **kwargs))

    return task


def _with_batches(options: Callable[_P, BatchOptions]) -> Callable[Concatenate[str, _P], _Batch]:
    def batch_task(queue: str, /, *args: _P.args, **kwargs: _P.kwargs) -> _Batch:
        """Make a function of a batch the `BatchTask` of a queue; the other arguments are those of BatchOptions.

        The function gets a list of jobs and answers outcomes by job id, None meaning `Complete()`; a member without
        an answer is retried. Raises InvalidName or InvalidValue for a queue or an option that cannot be.
        """
        return _Batch(queue, options(*args, **kwargs))

    return batch_task


task = _with(WorkerOptions)
batch_task = _with_batches(BatchOptions)
