"""Waiting for a condition: bounded, outside the event loop's way, and with words for what did not come."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

DEADLINE_S = 15.0  # a busy machine takes its time


async def until(true: Callable[[], object], what: str = "the condition", deadline_s: float = DEADLINE_S) -> None:
    """Look every few milliseconds until `true` gives something true (awaited if it must be).

    Raises AssertionError that names `what` after `deadline_s` seconds.
    """
    try:
        async with asyncio.timeout(deadline_s):
            while True:
                found = true()
                if isinstance(found, Awaitable):
                    found = await found
                if found:
                    return
                await asyncio.sleep(0.01)
    except TimeoutError:
        raise AssertionError(f"in {deadline_s:g} s it did not happen: {what}") from None
