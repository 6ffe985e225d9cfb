"""Steady work on a queue while something happens to its server, and the account of it afterwards.

A producer admits jobs under ids of its own and remembers each answer; workers complete them with an effect that
counts on the server. Since the effect commits with the acknowledgement, its count says how often a job was done.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from codemojex.engine.errors import ServerFull, Unavailable, UnknownOutcome
from codemojex.engine.inspection.audit import audit
from codemojex.engine.jobs import jobs
from codemojex.engine.jobs.effects import Effect, EffectBody
from codemojex.engine.jobs.jobs import Enqueued, Job, NewJob, Scheduled, Verdict
from codemojex.engine.jobs.outcome import Complete
from codemojex.engine.transport.connector import Connector
from codemojex.engine.worker.worker import Worker, WorkerOptions
from tests.engine.bench import Bench, lane

RAN = EffectBody("ran", "return redis.call('HINCRBY', KEYS[1], ARGV[1], 1)")
LEASE_MS = 3_000


def ran_key(queue: str) -> str:
    return f"test:{{{queue}}}:ran"


class Load:
    """What was asked, what was answered, what was done."""

    def __init__(self, bus: Connector, queue: str) -> None:
        self.bus = bus
        self.queue = queue
        self.bench = Bench(bus, queue)
        self.admitted: set[str] = set()
        self.unknown: set[str] = set()
        self.refused: set[str] = set()  # provably not admitted
        self.full = 0
        self.handled: Counter[str] = Counter()
        self.faults: list[str] = []
        self.enough = False
        self.producer: asyncio.Task[None] | None = None

    async def produce(self, every_s: float) -> None:
        for number in itertools.count():
            if self.enough:
                return
            await self.admit(self.bench.job(lane=lane(number % 5) if number % 3 else None))
            await asyncio.sleep(every_s)

    async def admit(self, job: NewJob) -> None:
        try:
            verdict: Verdict = await jobs.admit(self.bus, self.queue, job)
        except UnknownOutcome:
            self.unknown.add(job.id)
        except (Unavailable, ServerFull) as error:
            self.refused.add(job.id)
            self.full += isinstance(error, ServerFull)
        else:
            assert isinstance(verdict, Enqueued | Scheduled), verdict
            self.admitted.add(job.id)

    async def handle(self, job: Job) -> Complete:
        self.handled[job.id] += 1
        await asyncio.sleep(0.002)
        return Complete(effect=Effect("ran", (ran_key(self.queue),), (job.id,)))

    def observe(self, event: str, data: dict[str, object]) -> None:
        if event.endswith("fault"):
            self.faults.append(str(data["error"]))

    async def ran(self) -> dict[str, int]:
        counts: dict[bytes, bytes] = await self.bus.execute("HGETALL", ran_key(self.queue))
        return {job_id.decode(): int(count) for job_id, count in counts.items()}

    async def handles_more(self, jobs: int = 20, within_s: float = 10.0) -> float:
        """Wait until so many more jobs have reached a handler; seconds until the first."""
        begun = time.monotonic()
        goal = self.handled.total() + jobs
        first_s = 0.0
        before = self.handled.total()
        try:
            async with asyncio.timeout(within_s):
                while self.handled.total() < goal:
                    if not first_s and self.handled.total() > before:
                        first_s = time.monotonic() - begun
                    await asyncio.sleep(0.01)
        except TimeoutError:
            raise AssertionError(f"no work for {within_s:g} s; last faults: {self.faults[-3:]}") from None
        return first_s

    async def finish(self, may_miss: set[str] | None = None, within_s: float = 15.0) -> dict[str, int]:
        """Produce no more, wait for the work, and settle the accounts."""
        self.enough = True
        if self.producer is not None:
            await asyncio.wait([self.producer])
        done = await self.drained(may_miss, within_s)
        self.settle_accounts(done)
        await self.sound()
        return done

    async def drained(self, may_miss: set[str] | None = None, within_s: float = 15.0) -> dict[str, int]:
        """Wait until every admitted job is done, except some of `may_miss`; the counts of all."""
        try:
            async with asyncio.timeout(within_s):
                while True:
                    done = await self.ran()
                    if not self.admitted - set(done) - (may_miss or set()) and not await self.left():
                        return done
                    await asyncio.sleep(0.05)
        except TimeoutError:
            missing = self.admitted - set(await self.ran())
            raise AssertionError(f"{len(missing)} admitted jobs are not done: {sorted(missing)[:5]}") from None

    async def left(self) -> int:
        """Jobs that still wait or are in flight."""
        depths = await self.bus.pipeline(
            [("ZCARD", self.bench.space.key(key)) for key in ("pending", "active", "schedule")]
            + [("ZCARD", self.bench.space.lane(lane(number))) for number in range(5)]
        )
        return sum(depths)

    def settle_accounts(self, done: dict[str, int]) -> None:
        """Nothing ran twice, nothing ran that was refused."""
        assert set(done.values()) <= {1}, {job_id: n for job_id, n in done.items() if n > 1}
        assert not self.refused & set(done)
        assert set(done) <= self.admitted | self.unknown

    async def sound(self) -> None:
        violations = await audit(self.bus, self.queue)
        assert not violations, "\n".join(f"{v.subject}: {v.what}" for v in violations)
        dead = await self.bench.raw("ZCARD", "dead")
        assert not dead


@asynccontextmanager
async def load(
    bus: Connector, queue: str, *, workers: int = 2, every_s: float = 0.004, beat_ms: int = 1_000
) -> AsyncIterator[Load]:
    """Produce and work during the block; `finish` inside it ends the first and waits for the second."""
    found = Load(bus, queue)
    options = WorkerOptions(concurrency=8, lease_ms=LEASE_MS, beat_ms=beat_ms, grace_ms=2_000, max_stalled=20)
    crew = [
        Worker(bus, queue, found.handle, options=options, effects=(RAN,), observe=found.observe) for _ in range(workers)
    ]
    async with asyncio.TaskGroup() as tasks:
        producer = tasks.create_task(found.produce(every_s))
        for worker in crew:
            tasks.create_task(worker.run())
        found.producer = producer
        try:
            yield found
        finally:
            producer.cancel()
            for worker in crew:
                worker.stop()
