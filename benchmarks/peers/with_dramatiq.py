"""dramatiq, whose handlers run in threads."""

# pyright: basic, reportMissingImports=false
from __future__ import annotations

import asyncio
from collections.abc import Sequence

import dramatiq
from dramatiq.brokers.redis import RedisBroker
from dramatiq.middleware import Retries, ShutdownNotifications, TimeLimit

from benchmarks.probe import CONCURRENCY, Probe

SETTINGS = "64 threads, no Prometheus; for the killed worker a heartbeat of one lease, looked at with every command"
PACKAGE = "dramatiq"


class System:
    """What the child process drives."""

    bulk = "one by one"

    def __init__(self, url: str, probe: Probe) -> None:
        leases = {"heartbeat_timeout": probe.lease_ms, "maintenance_chance": 1_000_000} if probe.lease_ms else {}
        middleware = [TimeLimit(), ShutdownNotifications(), Retries()]
        self._broker = RedisBroker(url=url, middleware=middleware, **leases)

        def run(payload: str) -> None:
            probe.run_blocking(payload)

        self._actor = dramatiq.actor(run, actor_name="run", broker=self._broker)

    async def open(self) -> None:
        """Nothing: it connects with its first command."""

    async def put(self, payload: str, _tenant: str) -> None:
        """Enqueue one job and wait until the server has it."""
        self._actor.send(payload)

    async def put_many(self, payloads: Sequence[str], _tenant: str) -> None:
        """Enqueue many jobs, as fast as the system can."""
        for payload in payloads:
            self._actor.send(payload)

    async def work(self) -> None:
        """Work until the process ends."""
        dramatiq.Worker(self._broker, worker_threads=CONCURRENCY).start()
        await asyncio.Event().wait()
