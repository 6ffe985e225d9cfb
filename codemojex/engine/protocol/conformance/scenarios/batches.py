"""Scenarios of flat batches: one claim for many jobs, a verdict for each."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from codemojex.engine.backoff import Fixed
from codemojex.engine.inspection import admin
from codemojex.engine.jobs import claims, settlement
from codemojex.engine.jobs.jobs import Job
from codemojex.engine.jobs.outcome import Complete, Delay, Outcome, Retry
from codemojex.engine.jobs.settlement import Gone, Settled, Settlement, Stale
from codemojex.engine.maintenance import promotion
from codemojex.engine.protocol.conformance.fixture import LEASE_MS, ScenarioFixture, equal, that
from codemojex.engine.worker.batch_shape import Shaper
from codemojex.engine.worker.batch_worker import BatchOptions, BatchWorker, Partition, partition


async def batch_claim(stage: ScenarioFixture) -> None:
    """Four of eight are the four oldest, each with token 1, under one shared deadline."""
    made = await stage.fill(*[None] * 8)
    before = await stage.now_ms()
    batch = await claims.claim_batch(stage.bus, stage.queue, 4, LEASE_MS)
    equal([(job.id, job.token) for job in batch], [(job_id, "1") for job_id in made[:4]], "the batch")
    leases = await stage.scores("active")
    equal(set(leases), set(made[:4]), "the jobs in flight")
    equal(len(set(leases.values())), 1, "deadlines")
    that(min(leases.values()) >= before + LEASE_MS, "the deadline counts from the server's now")
    equal(list(await stage.scores("pending")), made[4:], "the backlog")
    equal({(await stage.row(job_id))["attempts"] for job_id in made[:4]}, {"1"}, "the rows' attempts")


async def batch_claim_short(stage: ScenarioFixture) -> None:
    """With fewer jobs than asked for the batch is short; an empty and a paused queue give an empty one."""
    equal(await claims.claim_batch(stage.bus, stage.queue, 4, LEASE_MS), [], "an empty queue")
    made = await stage.fill(None, None, None)
    await admin.pause(stage.bus, stage.queue)
    equal(await claims.claim_batch(stage.bus, stage.queue, 4, LEASE_MS), [], "a paused queue")
    await admin.resume(stage.bus, stage.queue)
    batch = await claims.claim_batch(stage.bus, stage.queue, 4, LEASE_MS)
    equal([job.id for job in batch], made, "a short batch")


async def batch_partial_failure(stage: ScenarioFixture) -> None:
    """One retried member of a batch does not touch the others; only it comes back, with token 2."""
    made = await stage.fill(*[None] * 4)
    batch = await stage.take(4)
    items = [Settlement(job.id, job.token, Retry("no", 0) if job.id == made[2] else Complete()) for job in batch]
    verdicts = await settlement.settle_many(stage.bus, stage.queue, items)
    wanted = [Settled("scheduled" if job.id == made[2] else "completed") for job in batch]
    equal(verdicts, wanted, "the verdicts, in order")
    equal(await stage.count("completed"), 3, "the total")
    equal([name for name in await stage.keys() if name.startswith("job:")], [f"job:{made[2]}"], "the rows that stay")
    await stage.due(made[2])
    (again,) = await stage.take()
    equal((again.id, again.token, again.failures), (made[2], "2", 1), "what comes back")


async def batch_delay(stage: ScenarioFixture) -> None:
    """A delayed member keeps its attempts, leaves the jobs in flight and is due later; its next token is one more."""
    made = await stage.fill(None, None)
    batch = await stage.take(2)
    before = await stage.now_ms()
    items = [Settlement(batch[0].id, "1", Delay(45_000)), Settlement(batch[1].id, "1", Complete())]
    verdicts = await settlement.settle_many(stage.bus, stage.queue, items)
    after = await stage.now_ms()
    equal(verdicts, [Settled("scheduled"), Settled("completed")], "the verdicts")
    row = {"state": "scheduled", "attempts": "1", "payload": "x", "counted": "1"}
    equal(await stage.row(made[0]), row, "the row")
    equal(await stage.kind("active"), "none", "the leases")
    due = (await stage.scores("schedule"))[made[0]]
    that(before + 45_000 <= due <= after + 45_000, f"due in 45 s by the server's clock, not {due - before} ms")
    await stage.due(made[0])
    equal((await promotion.promote(stage.bus, stage.queue)).jobs, 1, "promotions")
    (again,) = await stage.take()
    equal((again.token, again.failures), ("2", 0), "the next claim: another token, no failure charged")


async def batch_delay_stale(stage: ScenarioFixture) -> None:
    """A delay under a wrong token moves nothing; of a missing job it answers gone."""
    (job_id,) = await stage.fill(None)
    await stage.take()
    leases = await stage.scores("active")
    items = [Settlement(job_id, "2", Delay(10)), Settlement(stage.id(), "1", Delay(10))]
    verdicts = await settlement.settle_many(stage.bus, stage.queue, items)
    equal(verdicts, [Stale(), Gone()], "the verdicts")
    equal(await stage.scores("active"), leases, "the leases")
    equal(await stage.kind("schedule"), "none", "the schedule")


async def batch_shaping_floor(stage: ScenarioFixture) -> None:
    """From the floor on the whole depth is handed over, below it nothing is."""
    options = BatchOptions(min_size=4, timeout_ms=60_000)
    shaper = Shaper(4, 60_000, 500)
    equal([shaper.size(depth, 0) for depth in (1, 3, 4)], [0, 0, 4], "sizes at depths 1, 3 and 4")
    equal([shaper.size(depth, 1) for depth in (3, 9)], [0, 9], "sizes at depths 3 and 9")
    made = await stage.fill(*[None] * 6)
    batches = await _batches(stage, options, 6)
    equal(batches, [made], "the batches that a worker is handed")


async def batch_shaping_timeout(stage: ScenarioFixture) -> None:
    """Below the floor a batch goes out at the timeout and not before; an empty backlog never does."""
    shaper = Shaper(10, 1_000, 500)
    moments = ((0, 0), (3, 100), (3, 1_099), (3, 1_100), (0, 9_000), (2, 9_001))
    sizes = [shaper.size(depth, now) for depth, now in moments]
    equal(sizes, [0, 0, 0, 3, 0, 0], "sizes over time")
    made = await stage.fill(None, None)
    batches = await _batches(stage, BatchOptions(min_size=10, timeout_ms=60), 2)
    equal(batches, [made], "the batches that a worker is handed")


async def batch_shaping_partial_failure(stage: ScenarioFixture) -> None:
    """Each member has its own verdict; a member without one is retried with the error `missing verdict`."""
    made = await stage.fill(*[None] * 4)
    answers: dict[str, Outcome] = {made[0]: Complete(), made[1]: Retry("no", 60_000), made[2]: Delay(60_000)}
    parts: list[Partition] = []
    options = BatchOptions(min_size=4, backoff=Fixed(60_000))
    await _batches(stage, options, 4, answers, parts.append)
    equal(parts, [Partition((made[0],), (made[1], made[3]), (), (made[2],))], "what became of the members")
    rows = [await stage.row(job_id) for job_id in made]
    equal([row.get("state") for row in rows], [None, "scheduled", "scheduled", "scheduled"], "the states")
    equal([row.get("last_error") for row in rows], [None, "no", None, "missing verdict"], "the errors")


async def batch_partition(stage: ScenarioFixture) -> None:
    """The partition of a batch is exhaustive and disjoint, in input order; dead is who is dead by the settlement."""
    made = await stage.fill(*[None] * 6)
    batch = await stage.take(6)
    said: list[Outcome] = [Complete(), Retry("a", 1), Retry("b", 1), Delay(1), Complete(), Complete()]
    items = [Settlement(job.id, job.token, outcome) for job, outcome in zip(batch, said, strict=True)]
    items[4] = Settlement(batch[4].id, "77", Complete())
    once = settlement.Policy(max_attempts=1)
    verdicts = await settlement.settle_many(stage.bus, stage.queue, items[:2])
    verdicts += await settlement.settle_many(stage.bus, stage.queue, items[2:5], policy=once)
    answers = {item.job_id: (item.outcome, verdict) for item, verdict in zip(items[:5], verdicts, strict=True)}
    parts = partition(made, answers)
    wanted = Partition((made[0],), (made[1], made[4], made[5]), (made[2],), (made[3],))
    equal(parts, wanted, "completed; retried, stale and missing; dead; delayed")
    every = [*parts.completed, *parts.retried, *parts.dead, *parts.delayed]
    equal(sorted(every), made, "each member exactly once")


async def _batches(
    stage: ScenarioFixture,
    options: BatchOptions,
    jobs: int,
    answers: dict[str, Outcome] | None = None,
    on_settled: Callable[[Partition], None] | None = None,
) -> list[list[str]]:
    """The batches that a worker is handed until `jobs` were seen."""
    seen: list[list[str]] = []

    async def handle(batch: Sequence[Job]) -> dict[str, Outcome | None]:
        seen.append([job.id for job in batch])
        return dict.fromkeys(seen[-1]) if answers is None else {**answers}

    worker = BatchWorker(stage.bus, stage.queue, handle, options=options, on_settled=on_settled)
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(worker.run())
        await stage.until(lambda: sum(map(len, seen)) >= jobs, "the jobs are handed over")
        await stage.until(lambda: _nothing_in_flight(stage), "they are settled")
        worker.stop()
    return seen


async def _nothing_in_flight(stage: ScenarioFixture) -> bool:
    return await stage.raw("ZCARD", "active") == 0
