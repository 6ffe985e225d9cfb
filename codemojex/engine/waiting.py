"""Waiting with a deadline, and how long to wait before a lost server is tried again.

Loops of the engine never sleep where they can wait for an event; the functions here are what they wait with.
"""

from __future__ import annotations

import asyncio
import random

from codemojex.engine.backoff import Exponential

_RECONNECT = Exponential(base_ms=100, cap_ms=2_000)


async def wait(event: asyncio.Event, timeout_s: float) -> bool:
    """Wait for `event` at most `timeout_s` seconds; whether it is set."""
    try:
        async with asyncio.timeout(timeout_s):
            await event.wait()
    except TimeoutError:
        pass
    return event.is_set()


def interrupted() -> bool:
    """Whether the present task was cancelled; if not, a CancelledError comes from something that it waited for."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def detach(task: asyncio.Task[None]) -> None:
    """Let the program end without `task`, which was cancelled and does not end.

    `asyncio.run` waits at its end for every task that the loop knows; from now on this one is not among them.
    """
    if not task.done():
        asyncio.tasks._unregister_task(task)  # pyright: ignore[reportPrivateUsage]
        task._log_destroy_pending = False  # type: ignore[attr-defined]  # it was told already, with job and handler


def reconnect_s(failures: int) -> float:
    """Seconds to wait after the `failures`-th failure in a row: 50 ms at least, doubling to two seconds, jittered."""
    return 0.05 + _RECONNECT.delay_ms(failures, random.random()) / 1000
