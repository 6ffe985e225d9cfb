"""arq. It polls: 10 ms instead of 500 ms between two looks, since its speed hangs on that."""

# pyright: basic, reportMissingImports=false
from __future__ import annotations

from collections.abc import Sequence

from arq.connections import RedisSettings, create_pool
from arq.worker import Worker, func

from benchmarks.probe import CONCURRENCY, Probe, at_once

SETTINGS = "poll_delay 10 ms (default 500 ms), no results kept"
PACKAGE = "arq"


class System:
    """What the child process drives."""

    bulk = f"{CONCURRENCY} callers"

    def __init__(self, _url: str, probe: Probe) -> None:
        self._settings = RedisSettings(unix_socket_path=probe.path)
        self._probe = probe

    async def open(self) -> None:
        """Connect."""
        self._pool = await create_pool(self._settings)

    async def put(self, payload: str, _tenant: str) -> None:
        """Enqueue one job and wait until the server has it."""
        await self._pool.enqueue_job("run", payload)

    async def put_many(self, payloads: Sequence[str], tenant: str) -> None:
        """Enqueue many jobs, as fast as the system can."""
        await at_once(lambda payload: self.put(payload, tenant), payloads)

    async def work(self) -> None:
        """Work until the process ends."""
        worker = Worker(
            [func(self._run, name="run")],
            redis_settings=self._settings,
            max_jobs=CONCURRENCY,
            poll_delay=0.01,
            keep_result=0,
            job_timeout=self._probe.lease_ms / 1000 or 300,
            handle_signals=False,
        )
        await worker.async_run()

    async def _run(self, _ctx: dict, payload: str) -> None:
        await self._probe.run(payload)
