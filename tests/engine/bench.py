"""A test's workbench: one queue, short names for what tests do to it, and the hands of time.

Leases, due times and rests are scores; `lapse`, `due` and `rested` move them into the past, so no test waits for a
clock. `sound` is the oracle: it fails with everything the audit finds.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from codemojex.engine import ids, keyspace
from codemojex.engine.ids import Minter
from codemojex.engine.inspection.audit import audit
from codemojex.engine.jobs import claims, jobs, settlement
from codemojex.engine.jobs.claims import Claimed
from codemojex.engine.jobs.jobs import Job, NewJob, Verdict
from codemojex.engine.jobs.outcome import Complete, Outcome
from codemojex.engine.jobs.settlement import Policy, Settlement, SettleVerdict
from codemojex.engine.scripts import ENGINE
from codemojex.engine.transport.connector import Arg, Connector
from codemojex.engine.worker.batch_worker import BatchWorker
from codemojex.engine.worker.worker import Worker

LEASE = 60_000
W = TypeVar("W", Worker, BatchWorker)
_nodes = itertools.count()


def lane(number: int) -> str:
    return ids.derive("PRT", f"lane {number}")


@asynccontextmanager
async def running(worker: W) -> AsyncIterator[W]:
    """The worker at work inside the block, stopped in order behind it."""
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(worker.run())
        try:
            yield worker
        finally:
            worker.stop()


class Bench:
    def __init__(self, bus: Connector, queue: str) -> None:
        self.bus = bus
        self.queue = queue
        self.space = keyspace.of(queue)
        self._mint = Minter(next(_nodes) % 1000)

    def id(self) -> str:
        return self._mint.mint("JOB")

    def job(self, payload: bytes = b"x", lane: str | None = None, **more: Any) -> NewJob:
        return NewJob(self.id(), payload, lane=lane, **more)

    async def raw(self, command: str, key: str, *rest: Arg) -> Any:
        """A bare command on one of the queue's keys."""
        return await self.bus.execute(command, self.space.key(key), *rest)

    async def run(self, command: str, *args: Arg) -> Any:
        """A command of the engine by itself, as a peer runs it."""
        return await self.bus.run(ENGINE.script(command), (self.space.prefix,), args)

    async def row(self, job_id: str) -> dict[str, str]:
        row = await self.raw("HGETALL", f"job:{job_id}")
        return {name.decode(): value.decode() for name, value in row.items()}

    async def keys(self) -> dict[str, str]:
        """Every key of the queue and its type, without the prefix."""
        found: dict[str, str] = {}
        cursor = b"0"
        while True:
            cursor, page = await self.bus.execute("SCAN", cursor, "MATCH", f"{self.space.prefix}*", "COUNT", 1000)
            for key in page:
                kind = (await self.bus.execute("TYPE", key)).decode()
                if kind != "none":
                    found[key.decode().removeprefix(self.space.prefix)] = kind
            if cursor == b"0":
                return found

    async def put(self, *new: NewJob) -> list[Verdict]:
        return await jobs.admit_many(self.bus, self.queue, new)

    async def fill(self, lanes: Iterable[str | None], payload: bytes = b"x") -> list[str]:
        """One job per entry of `lanes`; their ids."""
        new = [self.job(payload, lane=name) for name in lanes]
        assert all(isinstance(verdict, jobs.Enqueued) for verdict in await self.put(*new))
        return [job.id for job in new]

    async def claim(self, n: int = 1, **more: Any) -> Claimed:
        return await claims.claim_many(self.bus, self.queue, n, LEASE, **more)

    async def take(self, n: int = 1) -> Sequence[Job]:
        """Claim exactly `n` jobs."""
        taken = (await self.claim(n)).jobs
        assert len(taken) == n, f"{len(taken)} of {n} jobs came"
        return taken

    async def settle(self, job: Job, outcome: Outcome | None = None, policy: Policy | None = None) -> SettleVerdict:
        item = Settlement(job.id, job.token, outcome or Complete())
        return (await settlement.settle_many(self.bus, self.queue, [item], policy=policy or Policy()))[0]

    async def lapse(self, *jobs: Job) -> None:
        """The leases ran out."""
        for job in jobs:
            assert await self.raw("ZADD", "active", "XX", "CH", 1, job.id) == 1

    async def due(self, *job_ids: str) -> None:
        """The scheduled jobs' time has come."""
        for job_id in job_ids:
            assert await self.raw("ZADD", "schedule", "XX", "CH", 1, job_id) == 1

    async def rested(self, name: str) -> None:
        """The lane has rested enough."""
        assert await self.raw("ZADD", "resting", "XX", "CH", 1, name) == 1
        await self.bus.execute("DEL", self.space.key(f"pace:{name}"))

    async def ring(self) -> list[str]:
        return [name.decode() for name in await self.raw("LRANGE", "ring", 0, -1)]

    async def wakes(self) -> int:
        return await self.raw("LLEN", "wake")

    async def sound(self) -> None:
        violations = await audit(self.bus, self.queue)
        assert not violations, "\n".join(f"{v.subject}: {v.what}" for v in violations)
