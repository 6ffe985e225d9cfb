"""Tasks of a queue object: the functions above which `@mail.task` and `@mail.batch_task` stand."""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar, cast

from codemojex.engine.bus.durations import Duration, to_ms
from codemojex.engine.bus.payloads import Payloads, ReadsMany, ReadsOne
from codemojex.engine.jobs.claims import MAX_LEASE_MS
from codemojex.engine.worker.batch_worker import BatchOptions
from codemojex.engine.worker.calling import is_plain
from codemojex.engine.worker.task import BatchTask, Task
from codemojex.engine.worker.worker import WorkerOptions

Function = TypeVar("Function", bound="Callable[..., Any]")


class QueueTask(Task[Any]):
    """A handler of single jobs of a queue object. A process gets the function itself, not the task."""

    def __reduce__(self) -> Any:
        return _itself, (self.function,)


class QueueBatchTask(BatchTask[Any]):
    """A handler of batches of a queue object."""

    def __reduce__(self) -> Any:
        return _itself, (self.function,)


def single(queue: str, payloads: Payloads[Any], handler: Callable[[Any], Any], options: WorkerOptions) -> QueueTask:
    """The task of a function of one job."""
    function = _reading(payloads, handler, options, payloads.read, ReadsOne)
    return QueueTask(queue, function, options)


def batch(queue: str, payloads: Payloads[Any], handler: Callable[[Any], Any], options: BatchOptions) -> QueueBatchTask:
    """The task of a function of a batch."""

    def read(jobs: Sequence[Any]) -> list[Any]:
        return [payloads.read(job) for job in jobs]

    function = _reading(payloads, handler, options, read, ReadsMany)
    return QueueBatchTask(queue, function, options)


def times(what: str, **given: Duration | None) -> dict[str, int]:
    """The options among `given` that are not None, in milliseconds and named so."""
    return {
        f"{name}_ms": to_ms(f"{what} {name}", value, 0, MAX_LEASE_MS)
        for name, value in given.items()
        if value is not None
    }


def _reading(
    payloads: Payloads[Any],
    handler: Callable[[Any], Any],
    options: WorkerOptions | BatchOptions,
    read: Callable[[Any], Any],
    plain: Callable[[Payloads[Any], Callable[[Any], Any]], Callable[[Any], Any]],
) -> Callable[[Any], Any]:
    """`handler` itself for bytes, else one that reads the payload first; async or plain as `handler` is."""
    if is_plain("a task", handler, options.runs_in):
        return handler if payloads.plain else functools.update_wrapper(cast("Any", plain(payloads, handler)), handler)
    if payloads.plain:
        return handler
    awaited = cast("Callable[[Any], Awaitable[Any]]", handler)

    @functools.wraps(awaited)
    async def reading(given: Any) -> Any:
        return await awaited(read(given))

    return reading


def _itself(function: Function) -> Function:
    return function
