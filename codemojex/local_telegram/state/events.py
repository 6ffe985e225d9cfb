"""Tells watchers what changed: the page through server-sent events, tests through a change counter.

Every watcher has a bounded queue; one that is too slow is told to reload (`reset`) instead of holding memory.
"""

import asyncio
from collections.abc import Generator
from contextlib import contextmanager

from codemojex.local_telegram.errors import Json

QUEUE_LIMIT = 1000


class Events:
    """One stream of changes, seen by any number of watchers."""

    def __init__(self) -> None:
        self.version = 0
        self._watchers: dict[asyncio.Queue[Json | None], int | None] = {}
        self._changed: list[asyncio.Future[None]] = []

    def tick(self) -> None:
        """Something changed that no watcher shows: only those who wait for a new version wake up."""
        self.version += 1
        for waiter in self._changed:
            if not waiter.done():
                waiter.set_result(None)
        self._changed.clear()

    def publish(self, kind: str, body: Json, audience: set[int] | None = None) -> None:
        """Tell the watchers of the people in `audience` (`None`: everybody)."""
        self.tick()
        event: Json = {"kind": kind, **body}
        for queue, user_id in self._watchers.items():
            if audience is not None and user_id is not None and user_id not in audience:
                continue
            if queue.full():
                while not queue.empty():
                    queue.get_nowait()
                queue.put_nowait({"kind": "reset"})
            else:
                queue.put_nowait(event)

    @contextmanager
    def watch(self, user_id: int | None) -> Generator[asyncio.Queue[Json | None]]:
        """A queue of what `user_id` sees change (`None`: all). A `None` in the queue says that the server stops."""
        queue: asyncio.Queue[Json | None] = asyncio.Queue(QUEUE_LIMIT + 1)
        self._watchers[queue] = user_id
        try:
            yield queue
        finally:
            del self._watchers[queue]

    async def changed_since(self, version: int, timeout_s: float) -> int:
        """Wait until something newer than `version` happened, at most `timeout_s`; return the current version."""
        if self.version <= version:
            waiter = asyncio.get_running_loop().create_future()
            self._changed.append(waiter)
            try:
                async with asyncio.timeout(timeout_s):
                    await waiter
            except TimeoutError:
                pass
            finally:
                if waiter in self._changed:
                    self._changed.remove(waiter)
        return self.version

    def close(self) -> None:
        """Let every watcher go."""
        for queue in self._watchers:
            if queue.full():
                queue.get_nowait()
            queue.put_nowait(None)
        for waiter in self._changed:
            if not waiter.done():
                waiter.set_result(None)
