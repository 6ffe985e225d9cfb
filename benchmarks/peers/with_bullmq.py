"""BullMQ's Python package."""

# pyright: basic, reportMissingImports=false
from __future__ import annotations

from collections.abc import Sequence

from bullmq import Queue, Worker

from benchmarks.probe import CONCURRENCY, Probe

SETTINGS = "jobs removed on completion; for the killed worker a check for stalled jobs every second"
PACKAGE = "bullmq"
_CHUNK = 500
_JOB = {"removeOnComplete": True}


class System:
    """What the child process drives."""

    bulk = "addBulk"

    def __init__(self, url: str, probe: Probe) -> None:
        self._url = url
        self._probe = probe

    async def open(self) -> None:
        """Connect."""
        self._queue = Queue("bench", {"connection": self._url})

    async def put(self, payload: str, _tenant: str) -> None:
        """Enqueue one job and wait until the server has it."""
        await self._queue.add("run", payload, _JOB)

    async def put_many(self, payloads: Sequence[str], _tenant: str) -> None:
        """Enqueue many jobs, as fast as the system can."""
        for start in range(0, len(payloads), _CHUNK):
            chunk = payloads[start : start + _CHUNK]
            await self._queue.addBulk([{"name": "run", "data": text, "opts": _JOB} for text in chunk])

    async def work(self) -> None:
        """Work until the process ends."""
        options = {"connection": self._url, "concurrency": CONCURRENCY, "autorun": False}
        if self._probe.lease_ms:
            options |= {"lockDuration": self._probe.lease_ms, "stalledInterval": 1000}
        await Worker("bench", self._run, options).run()

    async def _run(self, job, _token: str) -> None:
        await self._probe.run(job.data)
