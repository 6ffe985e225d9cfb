"""Threads for plain handlers: as many as there are calls at once, kept for the next call, never waited for at the end.

The standard library's pool joins its threads when the interpreter ends, so one that hangs would keep the program
alive. These are daemons: a program that ends leaves them behind.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import SimpleQueue


class Threads:
    """At most `limit` threads, made when they are needed. Call it from one thread only."""

    def __init__(self, name: str, limit: int) -> None:
        self._name = name
        self._limit = limit
        self._made = 0
        self._work: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._busy = 0  # calls that were started and have not ended
        self._lock = threading.Lock()

    def start(self, work: Callable[[], None]) -> None:
        """Run `work`, which must not raise, as soon as a thread is free."""
        with self._lock:
            self._busy += 1
            lacking = self._busy > self._made
        if lacking and self._made < self._limit:
            self._made += 1
            threading.Thread(target=self._run, name=f"{self._name}-{self._made}", daemon=True).start()
        self._work.put(work)

    def close(self) -> None:
        """End every thread once it is idle."""
        for _ in range(self._made):
            self._work.put(None)
        self._made = 0

    def _run(self) -> None:
        while (work := self._work.get()) is not None:
            work()
            del work  # and what it holds
            with self._lock:
                self._busy -= 1
