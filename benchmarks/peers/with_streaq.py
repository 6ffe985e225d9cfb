"""streaq, on streams."""

# pyright: basic, reportMissingImports=false
from __future__ import annotations

from collections.abc import Sequence

from streaq import Worker

from benchmarks.probe import CONCURRENCY, Probe

SETTINGS = "no results kept, signals left alone"
PACKAGE = "streaq"
_CHUNK = 500


class System:
    """What the child process drives."""

    bulk = "enqueue_many"

    def __init__(self, url: str, probe: Probe) -> None:
        self._probe = probe
        self._worker = Worker(
            redis_url=url,
            concurrency=CONCURRENCY,
            handle_signals=False,
            idle_timeout=probe.lease_ms / 1000 or 60,
        )

        async def run(payload: str) -> None:
            await probe.run(payload)

        self._task = self._worker.task(ttl=0)(run)
        self._working = False

    async def open(self) -> None:
        """Nothing: producers connect with their first job, the worker by itself."""

    async def put(self, payload: str, _tenant: str) -> None:
        """Enqueue one job and wait until the server has it."""
        await self._connect()
        await self._task.enqueue(payload)

    async def put_many(self, payloads: Sequence[str], _tenant: str) -> None:
        """Enqueue many jobs, as fast as the system can."""
        await self._connect()
        for start in range(0, len(payloads), _CHUNK):
            await self._worker.enqueue_many([self._task.enqueue(text) for text in payloads[start : start + _CHUNK]])

    async def work(self) -> None:
        """Work until the process ends."""
        await self._worker.run_async()

    async def _connect(self) -> None:
        if not self._working:
            self._working = True
            await self._worker.__aenter__()
