"""Several workers as the work of one process: they run together, and end together."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import threading
from collections.abc import Callable, Generator, Sequence
from dataclasses import replace
from typing import Any, Protocol, cast

from codemojex.engine import validation
from codemojex.engine.errors import InvalidValue
from codemojex.engine.observer import Observe
from codemojex.engine.transport.connector import Connector
from codemojex.engine.worker import task
from codemojex.engine.worker.batch_worker import BatchWorker
from codemojex.engine.worker.worker import Worker

Task = task.Task[Any] | task.BatchTask[Any]
_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Works(Protocol):
    """A `Worker`, a `BatchWorker`, a `GroupReader`, or what works like them."""

    async def run(self) -> None: ...
    def stop(self) -> None: ...


def works(connector: Connector, given: Works | Task, grace_ms: int | None, observe: Observe | None) -> Works:
    """The worker of a task; a worker as it is. Raises InvalidValue for anything else."""
    if isinstance(given, task.BatchTask):
        batch_options = given.options if grace_ms is None else replace(given.options, grace_ms=grace_ms)
        return BatchWorker(connector, given.queue, cast("Any", given), options=batch_options, observe=observe)
    if isinstance(given, task.Task):
        options = given.options if grace_ms is None else replace(given.options, grace_ms=grace_ms)
        return Worker(connector, given.queue, cast("Any", given), options=options, observe=observe)
    if callable(getattr(given, "run", None)) and callable(getattr(given, "stop", None)):
        return given
    raise validation.kind("work", given, "a task (put @queue.task() above the function), or a worker")


async def run(given: Sequence[Works], *, signals: bool) -> None:
    """Run until each has ended."""
    if not given:
        raise InvalidValue("there is no work: give at least one task or worker")
    async with asyncio.TaskGroup() as group:
        running = [group.create_task(one.run()) for one in given]

        def stop() -> None:
            for one in given:
                one.stop()

        def end() -> None:
            for one in running:
                one.cancel()

        with _signalled(stop, end) if signals else contextlib.nullcontext():
            await asyncio.wait(running, return_when=asyncio.FIRST_EXCEPTION)


@contextlib.contextmanager
def _signalled(stop: Callable[[], None], end: Callable[[], None]) -> Generator[None]:
    """The first signal inside the block calls `stop`, each further one `end`. Only the main thread hears signals."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    loop = asyncio.get_running_loop()
    heard = 0

    def hear() -> None:
        nonlocal heard
        heard += 1
        (stop if heard == 1 else end)()

    before = {number: signal.getsignal(number) for number in _SIGNALS}
    for number in _SIGNALS:
        loop.add_signal_handler(number, hear)
    try:
        yield
    finally:
        for number, handler in before.items():
            loop.remove_signal_handler(number)
            signal.signal(number, handler)
