"""One way to call a handler, however it is written: an async function, or a plain one in a thread or a process.

A plain function runs outside the event loop, so the loop goes on renewing its lease. The caller's context variables
reach a thread. A thread cannot be cancelled: when its job is taken away (a lost lease, a timeout, a request, the stop)
its result is refused, and its slot stays taken until the function returns. A process is killed instead.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import inspect
from collections.abc import Callable
from typing import Any, Literal, cast

from codemojex.engine import validation
from codemojex.engine.errors import InvalidValue
from codemojex.engine.observer import Observe, ignore
from codemojex.engine.worker.processes import Named, Process, Processes
from codemojex.engine.worker.threads import Threads

RunsIn = Literal["thread", "process"]


class Call:
    """The handler of one worker. `left` counts the jobs whose threads go on although nobody waits for them."""

    def __init__(self, what: str, handler: object, place: RunsIn, limit: int) -> None:
        """At most `limit` calls at once. Raises InvalidValue for what cannot be called, or cannot be called there."""
        function = handler.function if isinstance(handler, Named) else handler
        self.plain = is_plain(what, function, place)
        self._function = cast("Callable[[Any], Any]", function)
        self.name = name_of(function)
        self.left = 0
        self._queue = ""
        self._observe: Observe = ignore
        self._freed: Callable[[], None] = lambda: None
        self._threads: Threads | None = None
        self._processes: Processes | None = None
        if place == "process":
            self._processes = Processes(what, self.name, handler, limit)
        if self.plain:
            self._threads = Threads(f"handler-{self.name}", limit)

    def serve(self, queue: str, observe: Observe, freed: Callable[[], None]) -> None:
        """Say whose handler this is. `freed` is called when a thread that nobody waited for has ended."""
        self._queue, self._observe, self._freed = queue, observe, freed

    async def __call__(self, argument: Any) -> Any:  # what a handler takes and answers is checked by its callers
        """Call the handler, wherever it runs; what it returns and raises."""
        if self._threads is None:
            return await self._function(argument)
        process = self._processes.take() if self._processes else None
        try:
            answered = await self._elsewhere(self._threads, process, argument)
        finally:
            if process and self._processes:
                self._processes.give_back(process)
        if inspect.isawaitable(answered):
            if inspect.iscoroutine(answered):
                answered.close()
            raise InvalidValue(f"{self.name} is a plain function and answered an awaitable: write `async def`")
        return answered

    def close(self) -> None:
        """Let idle threads and processes end. What still runs in a thread is left to itself; processes are killed."""
        if self._threads:
            self._threads.close()
        if self._processes:
            self._processes.close()

    async def _elsewhere(self, threads: Threads, process: Process | None, argument: Any) -> Any:
        """Wait for the function in a thread, or for the process that a thread speaks to."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Any] = loop.create_future()
        function = process.call if process else self._function
        context = contextvars.copy_context()
        weight = len(cast("list[object]", argument)) if isinstance(argument, list) else 1

        def work() -> None:
            try:
                result, error = context.run(function, argument), None
            except BaseException as raised:  # it belongs to whoever waits
                result, error = None, raised
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
                loop.call_soon_threadsafe(ended, result, error)

        def ended(result: Any, error: BaseException | None) -> None:
            if answer.cancelled():
                self.left -= weight
                self._freed()
            elif isinstance(error, StopIteration):  # no future takes it
                answer.set_exception(RuntimeError(f"the handler raised StopIteration: {error}"))
            elif error is not None:
                answer.set_exception(error)
            else:
                answer.set_result(result)

        threads.start(work)
        try:
            return await answer
        except asyncio.CancelledError:
            if answer.cancelled():
                self.left += weight
                self._leave(process, argument)
            raise

    def _leave(self, process: Process | None, argument: Any) -> None:
        if process:
            process.kill()  # the thread that waits for it ends at once
            return
        jobs: list[Any] = cast("list[Any]", argument) if isinstance(argument, list) else [argument]
        ids = [job.id for job in jobs]
        self._observe("worker.thread_left", {"queue": self._queue, "jobs": ids, "handler": self.name})


def name_of(function: object) -> str:
    """The name of a function, for people: `package.module.function`."""
    function = getattr(function, "func", function)  # of a partial
    name = getattr(function, "__qualname__", None) or type(function).__qualname__
    return f"{getattr(function, '__module__', None) or '?'}.{name}"


def is_plain(what: str, function: object, place: RunsIn) -> bool:
    """Whether a handler runs outside of the event loop. Raises InvalidValue for what cannot be a handler there."""
    validation.function(what, function)
    plain = _is_plain(function)
    if place == "process" and not plain:
        raise InvalidValue(
            f"{what} {name_of(function)} is async and cannot run in a process: write `def`, or leave runs_in='thread'"
        )
    return plain


def _is_plain(function: object) -> bool:
    """Whether it is written with `def` or `lambda`; what is written in another language is awaited."""
    function = getattr(function, "func", function)  # of a partial
    if inspect.iscoroutinefunction(function):
        return False
    if inspect.isroutine(function) or inspect.isclass(function):
        return inspect.isfunction(getattr(function, "__func__", function))
    call = vars(type(function)).get("__call__") or type(function).__call__
    return inspect.isfunction(call) and not inspect.iscoroutinefunction(call)
