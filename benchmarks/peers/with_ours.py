"""codemojex's own engine, with a lane per tenant."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from benchmarks.probe import CONCURRENCY, Probe
from codemojex.engine import ids
from codemojex.engine.ids import Minter
from codemojex.engine.jobs import jobs
from codemojex.engine.jobs.jobs import Job, NewJob
from codemojex.engine.jobs.outcome import Outcome
from codemojex.engine.transport.connector import Connector
from codemojex.engine.worker.worker import Worker, WorkerOptions

SETTINGS = "a lane per tenant, admission in batches of its own, a handler per job"
PACKAGE = "codemojex"
QUEUE = "bench"


class System:
    """What the child process drives."""

    bulk = "admit_many"

    def __init__(self, url: str, probe: Probe) -> None:
        self._url = url
        self._probe = probe
        self._mint = Minter(1)

    async def open(self) -> None:
        """Connect."""
        self._bus = await Connector.connect(self._url)

    async def put(self, payload: str, tenant: str) -> None:
        """Enqueue one job and wait until the server has it."""
        await jobs.admit(self._bus, QUEUE, self._job(payload, tenant))

    async def put_many(self, payloads: Sequence[str], tenant: str) -> None:
        """Enqueue many jobs, as fast as the system can."""
        await jobs.admit_many(self._bus, QUEUE, [self._job(payload, tenant) for payload in payloads])

    async def work(self) -> None:
        """Work until the process ends."""
        lease_ms = self._probe.lease_ms or 30_000
        options = WorkerOptions(concurrency=CONCURRENCY, lease_ms=lease_ms)
        await Worker(self._bus, QUEUE, self._handle, options=options).run()
        await asyncio.Event().wait()

    async def _handle(self, job: Job) -> Outcome | None:
        await self._probe.run(job.payload.decode())

    def _job(self, payload: str, tenant: str) -> NewJob:
        return NewJob(self._mint.mint("JOB"), payload.encode(), lane=ids.derive("ROM", tenant))
