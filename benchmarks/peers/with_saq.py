"""saq, over its Redis queue."""

# pyright: basic, reportMissingImports=false
from __future__ import annotations

from collections.abc import Sequence

from redis.asyncio import Redis
from saq import Worker
from saq.queue.redis import RedisQueue

from benchmarks.probe import CONCURRENCY, Probe, at_once

SETTINGS = "no results kept; for the killed worker a time limit of one lease, a sweep every second, 5 tries (default 1)"
PACKAGE = "saq"


class System:
    """What the child process drives."""

    bulk = f"{CONCURRENCY} callers"

    def __init__(self, url: str, probe: Probe) -> None:
        self._queue = RedisQueue(Redis.from_url(url))
        self._probe = probe
        self._options = {"ttl": -1}
        if probe.lease_ms:
            self._options |= {"timeout": max(1, probe.lease_ms // 1000), "retries": 5}

    async def open(self) -> None:
        """Connect."""
        await self._queue.connect()

    async def put(self, payload: str, _tenant: str) -> None:
        """Enqueue one job and wait until the server has it."""
        await self._queue.enqueue("run", payload=payload, **self._options)

    async def put_many(self, payloads: Sequence[str], tenant: str) -> None:
        """Enqueue many jobs, as fast as the system can."""
        await at_once(lambda payload: self.put(payload, tenant), payloads)

    async def work(self) -> None:
        """Work until the process ends."""
        timers = {"sweep": 1} if self._probe.lease_ms else None
        await Worker(self._queue, [("run", self._run)], concurrency=CONCURRENCY, timers=timers).start()

    async def _run(self, _ctx: dict, *, payload: str) -> None:
        await self._probe.run(payload)
