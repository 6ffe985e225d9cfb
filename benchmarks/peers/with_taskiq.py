"""taskiq, with its broker on streams: the one that acknowledges."""

# pyright: basic, reportMissingImports=false
from __future__ import annotations

from collections.abc import Sequence

from taskiq.api import run_receiver_task
from taskiq_redis import RedisStreamBroker

from benchmarks.probe import CONCURRENCY, Probe, at_once

SETTINGS = "RedisStreamBroker, no result backend; its stream keeps what was worked"
PACKAGE = "taskiq-redis"


class System:
    """What the child process drives."""

    bulk = f"{CONCURRENCY} callers"

    def __init__(self, url: str, probe: Probe) -> None:
        self._broker = RedisStreamBroker(
            url,
            idle_timeout=probe.lease_ms or 600_000,
            unacknowledged_lock_timeout=probe.lease_ms / 1000 or None,
            xread_block=1000 if probe.lease_ms else 2000,
        )

        async def run(payload: str) -> None:
            await probe.run(payload)

        self._task = self._broker.register_task(run, task_name="run")

    async def open(self) -> None:
        """Connect."""
        await self._broker.startup()

    async def put(self, payload: str, _tenant: str) -> None:
        """Enqueue one job and wait until the server has it."""
        await self._task.kiq(payload)

    async def put_many(self, payloads: Sequence[str], tenant: str) -> None:
        """Enqueue many jobs, as fast as the system can."""
        await at_once(lambda payload: self.put(payload, tenant), payloads)

    async def work(self) -> None:
        """Work until the process ends."""
        await run_receiver_task(self._broker, max_async_tasks=CONCURRENCY)
