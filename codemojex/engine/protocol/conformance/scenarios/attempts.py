"""Scenarios of one attempt: claim, lease, token, settlement, recovery."""

from __future__ import annotations

from codemojex.engine.backoff import Exponential, Fixed
from codemojex.engine.errors import StaleToken
from codemojex.engine.jobs import claims, jobs, settlement
from codemojex.engine.jobs.outcome import Retry
from codemojex.engine.jobs.settlement import Gone, Policy, Settled, Stale
from codemojex.engine.maintenance import promotion, recovery
from codemojex.engine.protocol.conformance.fixture import LEASE_MS, ScenarioFixture, equal, refused, that


async def claim(stage: ScenarioFixture) -> None:
    """The first claim brings the payload and token 1; the lease is a score in server time."""
    (job_id,) = await stage.fill(None, payload=b"\x00bytes\xff")
    before = await stage.now_ms()
    job = await claims.claim(stage.bus, stage.queue, LEASE_MS)
    after = await stage.now_ms()
    that(job is not None, "a job is claimed")
    if job is not None:
        equal((job.id, job.payload, job.token), (job_id, b"\x00bytes\xff", "1"), "the job")
    row = await stage.raw("HMGET", f"job:{job_id}", "state", "attempts")
    equal(row, [b"active", b"1"], "state and attempts")
    lease = (await stage.scores("active"))[job_id]
    that(before + LEASE_MS <= lease <= after + LEASE_MS, f"the lease ends {LEASE_MS} ms from the server's now")
    equal(await stage.kind("pending"), "none", "the backlog")
    equal(await claims.claim(stage.bus, stage.queue, LEASE_MS), None, "a claim of an empty queue")


async def stale(stage: ScenarioFixture) -> None:
    """A wrong token is refused and changes nothing, also after a script flush; the right one completes."""
    await stage.fill(None)
    (job,) = await stage.take()
    await stage.bus.at(stage.space.prefix, "SCRIPT", "FLUSH", "SYNC")
    for token in ("2", "0", "01", ""):
        call = settlement.complete(stage.bus, stage.queue, job.id, token)
        text = str(await refused(call, StaleToken, f"token {token!r}"))
        that(text.startswith("EMQSTALE"), f"the refusal begins with EMQSTALE, not {text!r}")
    equal((await stage.row(job.id))["state"], "active", "the state")
    that(job.id in await stage.scores("active"), "it is still in flight")
    equal(await settlement.complete(stage.bus, stage.queue, job.id, "1"), Settled("completed"), "the right token")


async def complete(stage: ScenarioFixture) -> None:
    """Completion removes the row and the lease, counts one, and a second one finds the job gone."""
    await stage.fill(None)
    (job,) = await stage.take()
    equal(await settlement.complete(stage.bus, stage.queue, job.id, job.token), Settled("completed"), "the verdict")
    equal(await stage.keys(), {"metrics:completed": "hash"}, "the queue's keys")
    equal(await stage.hash("metrics:completed"), {"count": "1"}, "the total")
    equal(await settlement.complete(stage.bus, stage.queue, job.id, job.token), Gone(), "the second verdict")
    equal(await stage.count("completed"), 1, "the total after the second")


async def retry(stage: ScenarioFixture) -> None:
    """A retry schedules the job under now plus its delay and keeps the error; the next claim has token 2."""
    await stage.fill(None)
    (job,) = await stage.take()
    before = await stage.now_ms()
    verdict = await settlement.retry(stage.bus, stage.queue, job.id, job.token, "no luck", delay_ms=30_000)
    after = await stage.now_ms()
    equal(verdict, Settled("scheduled"), "the verdict")
    row = await stage.row(job.id)
    equal((row["state"], row["attempts"], row["last_error"]), ("scheduled", "1", "no luck"), "the row")
    due = (await stage.scores("schedule"))[job.id]
    that(before + 30_000 <= due <= after + 30_000, f"due 30 s from the server's now, not {due}")
    equal(await stage.kind("active"), "none", "the leases")
    await stage.due(job.id)
    equal((await promotion.promote(stage.bus, stage.queue)).jobs, 1, "promotions")
    equal((await stage.row(job.id))["state"], "pending", "the state after promotion")
    (again,) = await stage.take()
    equal((again.id, again.token), (job.id, "2"), "the next claim")
    equal(await stage.settle(job), Stale(), "the first holder's late result")


async def dead(stage: ScenarioFixture) -> None:
    """At the cap the job is dead: its row stays with the error, it stands in dead with score 0 and counts as failed."""
    await stage.fill(None)
    (job,) = await stage.take()
    verdict = await settlement.retry(stage.bus, stage.queue, job.id, job.token, "poison", max_attempts=1)
    equal(verdict, Settled("dead"), "the verdict")
    row = await stage.row(job.id)
    equal((row["state"], row["last_error"]), ("dead", "poison"), "the row")
    equal(await stage.scores("dead"), {job.id: 0.0}, "the dead letters")
    equal(await stage.hash("metrics:failed"), {"count": "1"}, "the total")
    equal((await stage.kind("active"), await stage.kind("schedule")), ("none", "none"), "leases and schedule")


async def reap(stage: ScenarioFixture) -> None:
    """One scan returns every lapsed lease to the backlog and no other; the next token is 2."""
    first, second, third = await stage.fill(None, None, None)
    await stage.take(3)
    await stage.lapse(first, third)
    recovered = await recovery.recover(stage.bus, stage.queue)
    equal(sorted(recovered.waiting), [first, third], "the recovered ids")
    equal(await stage.scores("pending"), {first: 0.0, third: 0.0}, "the backlog")
    equal(list(await stage.scores("active")), [second], "the leases")
    row = await stage.row(first)
    equal((row["state"], row["attempts"]), ("pending", "1"), "a recovered row: the token stays until the next claim")
    job = await claims.claim(stage.bus, stage.queue, LEASE_MS)
    that(job is not None and (job.id, job.token) == (first, "2"), f"the next claim has token 2, not {job}")


async def backoff(stage: ScenarioFixture) -> None:
    """A job that always fails dies exactly at its cap, with the last error, its delays growing as its row says."""
    job = stage.job(max_attempts=3, backoff=Exponential(base_ms=1_000, cap_ms=1_500, jitter=False))
    await stage.put(job)
    equal((await stage.row(job.id))["backoff"], "exp:1000:1500:0", "the backoff in the row")
    for attempt, wait_ms in ((1, 1_000), (2, 1_500), (3, None)):
        (held,) = await stage.take()
        equal(held.token, str(attempt), "the token")
        before = await stage.now_ms()
        verdict = await stage.settle(held, Retry(f"error {attempt}"), Policy(max_attempts=99, backoff=Fixed(7)))
        after = await stage.now_ms()
        if wait_ms is None:
            equal(verdict, Settled("dead"), "the third failure")
            break
        equal(verdict, Settled("scheduled"), f"failure {attempt}")
        due = (await stage.scores("schedule"))[job.id]
        that(before + wait_ms <= due <= after + wait_ms, f"attempt {attempt} waits {wait_ms} ms, not {due - before}")
        await stage.due(job.id)
    row = await stage.row(job.id)
    equal((row["last_error"], row["attempts"]), ("error 3", "3"), "the row of the dead letter")


async def lock_extend(stage: ScenarioFixture) -> None:
    """An extended lease outlives its first deadline; a stale token and a job that is gone are told apart."""
    await stage.fill(None)
    job = await claims.claim(stage.bus, stage.queue, 40)
    that(job is not None, "a job is claimed")
    if job is None:
        return
    that(await settlement.extend(stage.bus, stage.queue, job.id, job.token, LEASE_MS), "the lease is extended")
    deadline = (await stage.scores("active"))[job.id]
    that(deadline > await stage.now_ms() + 50_000, "the score is the new deadline")
    await stage.until(lambda: _passed(stage, job.lease_until_ms), "the first deadline passes")
    equal((await recovery.recover(stage.bus, stage.queue)).waiting, [], "recoveries after the first deadline")
    call = settlement.extend(stage.bus, stage.queue, job.id, "7", LEASE_MS)
    await refused(call, StaleToken, "a stale token")
    equal((await stage.scores("active"))[job.id], deadline, "the deadline after a refusal")
    gone = await settlement.extend(stage.bus, stage.queue, stage.id(), "1", LEASE_MS)
    equal(gone, False, "a job that does not exist")
    equal(len(await stage.scores("active")), 1, "leases: none is made for a ghost")


async def _passed(stage: ScenarioFixture, instant_ms: int) -> bool:
    return await stage.now_ms() > instant_ms


async def stalled(stage: ScenarioFixture) -> None:
    """A lapsed lease is counted in the row; below the threshold the job waits again, at it the job is dead."""
    (job_id,) = await stage.fill(None)
    await stage.take()
    await stage.lapse(job_id)
    first = await recovery.recover(stage.bus, stage.queue, max_stalled=2)
    equal([*first.waiting, "dead", *first.dead], [job_id, "dead"], "the first lapse")
    row = await stage.row(job_id)
    equal((row["state"], row["stalled"]), ("pending", "1"), "the row")
    (job,) = await stage.take()
    equal((job.stalled, job.token), (1, "2"), "lapses and token of the next claim")
    await stage.lapse(job_id)
    second = await recovery.recover(stage.bus, stage.queue, max_stalled=2)
    equal([*second.waiting, "dead", *second.dead], ["dead", job_id], "the second lapse")
    row = await stage.row(job_id)
    equal((row["state"], row["stalled"], row["last_error"]), ("dead", "2", "stalled"), "the row of the dead letter")
    equal(await stage.scores("dead"), {job_id: 0.0}, "the dead letters")
    equal(await stage.count("failed"), 1, "the total")


async def extend_locks_batch(stage: ScenarioFixture) -> None:
    """Of a live, a stale and a gone lease exactly the stale and the gone one are returned."""
    live, old = await stage.fill(None, None)
    await stage.take(2)
    before = await stage.scores("active")
    gone = stage.id()
    lost = await settlement.extend_many(stage.bus, stage.queue, [(live, "1"), (old, "9"), (gone, "1")], 2 * LEASE_MS)
    equal(lost, [old, gone], "the leases that are not held")
    after = await stage.scores("active")
    that(after[live] > before[live], "the live lease is longer")
    equal(after[old], before[old], "the lease with another token")
    equal(gone in after, False, "a lease for a job that does not exist")


async def stalled_group(stage: ScenarioFixture) -> None:
    """A lapsed job of a lane returns to its lane, gives its seat back, and never stands in the flat backlog."""
    lane = stage.lane(1)
    (job_id,) = await stage.fill(lane)
    await stage.take()
    equal(await stage.hash("gactive"), {lane: "1"}, "the seats")
    await stage.lapse(job_id)
    equal((await recovery.recover(stage.bus, stage.queue)).waiting, [job_id], "the recovered ids")
    equal(await stage.scores(f"g:{lane}:pending"), {job_id: 0.0}, "the lane")
    equal(await stage.kind("pending"), "none", "the flat backlog")
    equal(await stage.items("ring"), [lane], "the ring")
    equal(await stage.kind("gactive"), "none", "the seats after the lapse")
    equal(await jobs.enqueue(stage.bus, stage.queue, job_id, b"x"), jobs.Duplicate(job_id), "the id again")
    await stage.sound()
