"""Scenarios of flat batches: one claim for many jobs, a verdict for each."""

from __future__ import annotations

from codemojex.engine import admin, claims, schedule, settlement
from codemojex.engine.outcome import Complete, Delay, Retry
from codemojex.engine.settlement import Gone, Settled, Settlement, Stale

from .stage import LEASE_MS, Stage, equal, that


async def batch_claim(stage: Stage) -> None:
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


async def batch_claim_short(stage: Stage) -> None:
    """With fewer jobs than asked for the batch is short; an empty and a paused queue give an empty one."""
    equal(await claims.claim_batch(stage.bus, stage.queue, 4, LEASE_MS), [], "an empty queue")
    made = await stage.fill(None, None, None)
    await admin.pause(stage.bus, stage.queue)
    equal(await claims.claim_batch(stage.bus, stage.queue, 4, LEASE_MS), [], "a paused queue")
    await admin.resume(stage.bus, stage.queue)
    batch = await claims.claim_batch(stage.bus, stage.queue, 4, LEASE_MS)
    equal([job.id for job in batch], made, "a short batch")


async def batch_partial_failure(stage: Stage) -> None:
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


async def batch_delay(stage: Stage) -> None:
    """A delayed member keeps its attempts, leaves the jobs in flight and is due later; its next token is one more."""
    made = await stage.fill(None, None)
    batch = await stage.take(2)
    before = await stage.now_ms()
    items = [Settlement(batch[0].id, "1", Delay(45_000)), Settlement(batch[1].id, "1", Complete())]
    verdicts = await settlement.settle_many(stage.bus, stage.queue, items)
    after = await stage.now_ms()
    equal(verdicts, [Settled("scheduled"), Settled("completed")], "the verdicts")
    equal(await stage.row(made[0]), {"state": "scheduled", "attempts": "1", "payload": "x"}, "the row")
    equal(await stage.kind("active"), "none", "the leases")
    due = (await stage.scores("schedule"))[made[0]]
    that(before + 45_000 <= due <= after + 45_000, f"due in 45 s by the server's clock, not {due - before} ms")
    await stage.due(made[0])
    equal((await schedule.promote(stage.bus, stage.queue)).jobs, 1, "promotions")
    (again,) = await stage.take()
    equal((again.token, again.failures), ("2", 0), "the next claim: another token, no failure charged")


async def batch_delay_stale(stage: Stage) -> None:
    """A delay under a wrong token moves nothing; of a missing job it answers gone."""
    (job_id,) = await stage.fill(None)
    await stage.take()
    leases = await stage.scores("active")
    items = [Settlement(job_id, "2", Delay(10)), Settlement(stage.id(), "1", Delay(10))]
    verdicts = await settlement.settle_many(stage.bus, stage.queue, items)
    equal(verdicts, [Stale(), Gone()], "the verdicts")
    equal(await stage.scores("active"), leases, "the leases")
    equal(await stage.kind("schedule"), "none", "the schedule")
