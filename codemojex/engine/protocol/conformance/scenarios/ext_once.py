"""Our own scenarios, once means once: section 7.4."""

from __future__ import annotations

from codemojex.engine import ids
from codemojex.engine.backoff import Fixed
from codemojex.engine.errors import CrossSlot, StaleToken
from codemojex.engine.inspection import admin
from codemojex.engine.jobs import claims, jobs, settlement
from codemojex.engine.jobs.effects import Effect, EffectBody
from codemojex.engine.jobs.jobs import Dedup, Duplicate, Enqueued
from codemojex.engine.jobs.outcome import Complete, Delay, Discard, GiveBack, Retry
from codemojex.engine.jobs.settlement import EffectFailure, Policy, Settled, Settlement, Stale
from codemojex.engine.lanes import lanes
from codemojex.engine.maintenance import recovery
from codemojex.engine.nodes.node_lease import NodeLease
from codemojex.engine.protocol.conformance.fixture import LEASE_MS, ScenarioFixture, equal, refused, that

_ADD = EffectBody("add", "return redis.call('INCRBY', KEYS[1], ARGV[1])")
_FAIL = EffectBody("fail", "return redis.error_reply('NO not today')")


async def row_settings(stage: ScenarioFixture) -> None:
    """What a job needs for its life stands in its row, only when given, and wins over the worker's own settings."""
    plain = stage.job()
    rich = stage.job(max_attempts=2, backoff=Fixed(9_000), timeout_ms=500, expires_at_ms=4_000_000_000_000)
    await stage.put(plain, rich)
    equal(set(await stage.row(plain.id)), {"state", "attempts", "payload"}, "the fields of a plain row")
    wanted = {"max_attempts": "2", "backoff": "fixed:9000", "timeout_ms": "500", "expires_at": "4000000000000"}
    row = await stage.row(rich.id)
    equal({name: row.get(name) for name in wanted}, wanted, "the settings in the row")
    _, job = await stage.take(2)
    equal(job.timeout_ms, 500, "the time limit that the handler's host sees")
    policy = Policy(max_attempts=50, backoff=Fixed(1))
    equal(await stage.settle(job, Retry("no"), policy), Settled("scheduled"), "the first failure")
    due = (await stage.scores("schedule"))[rich.id]
    that(due > await stage.now_ms() + 8_000, "the row's backoff counts")
    await stage.due(rich.id)
    (again,) = await stage.take()
    equal(await stage.settle(again, Retry("no"), policy), Settled("dead"), "the failure at the row's cap")


async def expiry(stage: ScenarioFixture) -> None:
    """A job that is claimed after its expiry dies in place of running."""
    old, fresh = stage.job(expires_at_ms=1), stage.job()
    await stage.put(old, fresh)
    equal([job.id for job in await stage.take()], [fresh.id], "the claimed job")
    row = await stage.row(old.id)
    equal((row["state"], row["last_error"], row["attempts"]), ("dead", "expired", "0"), "the expired row")


async def dedup_window(stage: ScenarioFixture) -> None:
    """An idempotency key answers with its job while that lives and for the window after; then it is free."""
    first, second = stage.job(dedup=Dedup("k", 60_000)), stage.job(dedup=Dedup("k", 60_000))
    equal(await stage.put(first, second), [Enqueued(), Duplicate(first.id)], "the verdicts")
    equal(await stage.kind(f"job:{second.id}"), "none", "the row of the second")
    (job,) = await stage.take()
    that(await stage.raw("PTTL", "de:k") > 60_000, "a claim prolongs the key by the lease")
    await stage.raw("PEXPIRE", "de:k", 5_000)
    await stage.settle(job)
    equal(await stage.put(second), [Duplicate(first.id)], "the verdict after completion")
    ttl = await stage.raw("PTTL", "de:k")
    that(50_000 < ttl <= 60_000, f"the window runs from the job's end: {ttl} ms")
    await stage.raw("PEXPIRE", "de:k", 0)
    equal(await stage.put(second), [Enqueued()], "the verdict after the window")
    waiting, joining = (stage.job(dedup=Dedup("c", 60_000, release="claim")) for _ in range(2))
    equal(await stage.put(waiting, joining), [Enqueued(), Duplicate(waiting.id)], "the verdicts of a coalescing key")
    await stage.take(2)
    equal(await stage.put(joining), [Enqueued()], "its verdict after the claim")


async def conflict(stage: ScenarioFixture) -> None:
    """The same id with another payload is reported as a conflict, not swallowed as a repeat."""
    job_id = stage.id()
    equal(await jobs.enqueue(stage.bus, stage.queue, job_id, b"one"), Enqueued(), "the first")
    again = await jobs.enqueue(stage.bus, stage.queue, job_id, b"two")
    equal(again, Duplicate(job_id, conflict=True), "the second")


async def three_counters(stage: ScenarioFixture) -> None:
    """Tokens, failures and lapsed leases are counted apart; a delay and a hand-back charge neither of the last two."""
    (job_id,) = await stage.fill(None)
    policy = Policy(max_attempts=2)
    for outcome in (GiveBack(), Delay(0), Retry("no", 0)):
        (job,) = await stage.take()
        await stage.settle(job, outcome, policy)
        if (await stage.row(job_id))["state"] == "scheduled":
            await stage.due(job_id)
    (job,) = await stage.take()
    await stage.lapse(job_id)
    await recovery.recover(stage.bus, stage.queue)
    (job,) = await stage.take()
    equal((job.token, job.failures, job.stalled), ("5", 1, 1), "token, failures, lapsed leases")
    row = await stage.row(job_id)
    equal((row["attempts"], row["failures"], row["stalled"]), ("5", "1", "1"), "the row")
    equal(await stage.settle(job, Retry("no", 0), policy), Settled("dead"), "the second failure")


async def effect(stage: ScenarioFixture) -> None:
    """An effect and its acknowledgement are one step: once under the token, never under a stale one."""
    await stage.fill(None, None)
    job, other = await stage.take(2)
    stage.props.add("effect")
    key = stage.space.key("effect")
    use = Complete(effect=Effect("add", [key], [5]))
    bodies = [_ADD, _FAIL]

    async def end(token: str, outcome: Complete, job_id: str = job.id) -> object:
        items = [Settlement(job_id, token, outcome)]
        return (await settlement.settle_many(stage.bus, stage.queue, items, effects=bodies))[0]

    equal(await end("9", use), Stale(), "the verdict of a stale token")
    equal(await stage.kind("effect"), "none", "the effect of a stale token")
    equal(await end(job.token, use), Settled("completed", 5), "the verdict, with the effect's reply")
    await end(job.token, use)
    equal(await stage.text("effect"), "5", "the effect, once")
    verdict = await end(other.token, Complete(effect=Effect("fail")), other.id)
    that(isinstance(verdict, EffectFailure), f"a failed effect is told: {verdict}")
    equal((await stage.row(other.id))["state"], "active", "the job of a failed effect")


async def effect_cross_slot(stage: ScenarioFixture) -> None:
    """An effect with a key outside the queue's slot is refused before anything is written or sent."""
    await stage.fill(None)
    (job,) = await stage.take()
    outside = stage.sibling("other").space.key("x")
    call = settlement.complete(stage.bus, stage.queue, job.id, job.token, Effect("add", [outside], [1]), effects=[_ADD])
    await refused(call, CrossSlot, "a key of another queue")
    equal(await stage.bus.execute("EXISTS", outside), 0, "the outside key")
    equal((await stage.row(job.id))["state"], "active", "the job")


async def stalled_cap(stage: ScenarioFixture) -> None:
    """A job that kills its worker each time ends in dead after its cap and does not come back to the head for ever."""
    lane = stage.lane(1)
    killer, after = await stage.fill(lane, lane)
    for lapse in range(1, 4):
        (job,) = await stage.take()
        equal((job.id, job.token), (killer, str(lapse)), "the claimed job and its token")
        await stage.lapse(killer)
        recovered = await recovery.recover(stage.bus, stage.queue, max_stalled=3)
        equal(killer in recovered.dead, lapse == 3, f"dead after lapse {lapse}")
    equal([job.id for job in await stage.take()], [after], "the next job")
    equal((await stage.row(killer)).get("failures"), None, "failures charged")
    await stage.sound()


async def no_ghosts(stage: ScenarioFixture) -> None:
    """Ids without rows are dropped wherever they stand, and no verb makes a row for a job that does not exist."""
    lane, ghost, real = stage.lane(1), stage.id(), stage.id()
    await jobs.enqueue(stage.bus, stage.queue, real, b"x")
    await stage.raw("ZADD", "pending", 0, ghost)
    await stage.raw("ZADD", "schedule", 1, ghost)
    await stage.raw("ZADD", "active", 1, ghost)
    await stage.fill(lane)
    await stage.raw("ZADD", f"g:{lane}:pending", 0, ghost)
    equal(len(await stage.take(2)), 2, "jobs of a claim")
    equal((await recovery.recover(stage.bus, stage.queue)).waiting, [], "recovered ghosts")
    nowhere = stage.id()
    await settlement.extend_many(stage.bus, stage.queue, [(nowhere, "1")], LEASE_MS)
    await admin.update_data(stage.bus, stage.queue, nowhere, b"x")
    await lanes.move(stage.bus, stage.queue, nowhere, lane)
    await admin.reprocess(stage.bus, stage.queue, nowhere)
    rows = {suffix for suffix in await stage.keys() if suffix.startswith("job:")}
    that(not rows & {f"job:{ghost}", f"job:{nowhere}"}, "no row of a ghost")
    await stage.sound()


async def extend_active_only(stage: ScenarioFixture) -> None:
    """A recovered, scheduled or dead job is never resurrected by a late renewal under its last token."""
    await stage.fill(None, None, None)
    lapsed, delayed, buried = await stage.take(3)
    await stage.lapse(lapsed.id)
    await recovery.recover(stage.bus, stage.queue)
    await stage.settle(delayed, Delay(60_000))
    await stage.settle(buried, Discard("no"))
    held = [(job.id, job.token) for job in (lapsed, delayed, buried)]
    lost = await settlement.extend_many(stage.bus, stage.queue, held, LEASE_MS)
    equal(lost, [job_id for job_id, _ in held], "the leases that are not held")
    equal(await stage.kind("active"), "none", "the jobs in flight")
    call = settlement.extend(stage.bus, stage.queue, delayed.id, delayed.token, LEASE_MS)
    await refused(call, StaleToken, "a renewal of a scheduled job")
    await stage.sound()


async def late_holder(stage: ScenarioFixture) -> None:
    """Between recovery and the next claim the old holder may still finish; after the claim it is stale."""
    lane = stage.lane(1)
    await stage.fill(lane, lane)
    first, second = await stage.take(2)
    await stage.lapse(first.id, second.id)
    await recovery.recover(stage.bus, stage.queue)
    equal(await stage.settle(first), Settled("completed"), "the old holder before the next claim")
    (again,) = await stage.take()
    equal((again.id, again.token), (second.id, "2"), "the next claim")
    for outcome in (Complete(), Retry("no"), Delay(1), Discard("no"), GiveBack()):
        equal(await stage.settle(second, outcome), Stale(), f"the old holder's {type(outcome).__name__}")
    equal(await stage.hash("gactive"), {lane: "1"}, "the seats")
    await stage.sound()


async def lane_accounting(stage: ScenarioFixture) -> None:
    """Delay, retry, complete, discard, hand-back, removal and reprocessing all give the lane its seat back."""
    lane = stage.lane(1)
    await lanes.limit(stage.bus, stage.queue, lane, 1)
    for outcome in (Delay(60_000), Retry("no", 60_000), Complete(), Discard("no"), GiveBack(), None):
        (job_id,) = await stage.fill(lane)
        (job,) = await stage.take()
        equal(await stage.hash("gactive"), {lane: "1"}, "the seats while in flight")
        if outcome is None:
            await admin.remove_job(stage.bus, stage.queue, job_id)
        else:
            await stage.settle(job, outcome)
        equal(await stage.kind("gactive"), "none", f"the seats after {outcome}")
        await stage.sound()
        if isinstance(outcome, Discard):
            await admin.reprocess(stage.bus, stage.queue, job_id)
            equal(await stage.items("ring"), [lane], "the ring after reprocessing")
        await lanes.drain(stage.bus, stage.queue, lane)
    await stage.sound()


async def node_lease(stage: ScenarioFixture) -> None:
    """Two processes never hold one node number, so they never mint the same id."""
    stage.props.add("nodes")
    key = stage.space.key("nodes")
    async with NodeLease(stage.bus, key=key) as one, NodeLease(stage.bus, key=key) as two:
        that(one.node != two.node, "the numbers differ")
        made = [lease.minter.mint("JOB") for lease in (one, two) for _ in range(200)]
        equal(len(set(made)), 400, "different ids")
        equal({ids.parse(i).node for i in made}, {one.node, two.node}, "the numbers in the ids")
        equal(len(await stage.hash("nodes")), 2, "leases in the table")
    async with NodeLease(stage.bus, key=key, lease_ms=300) as robbed:
        number = robbed.node
        await stage.raw("HSET", "nodes", number, f"{await stage.now_ms() + 60_000}:stranger")
        await stage.until(lambda: not robbed.lost and robbed.node != number, "it takes another number")
        that((await stage.hash("nodes"))[str(number)].endswith(":stranger"), "the stranger keeps its lease")


async def unreadable_row(stage: ScenarioFixture) -> None:
    """A row of another type does not stop the rota: its id is dropped and the next job goes out."""
    broken, fine = await stage.fill(None, None)
    await stage.raw("DEL", f"job:{broken}")
    await stage.raw("SET", f"job:{broken}", "not a hash")
    stage.props.add(f"job:{broken}")
    claimed = await claims.claim_many(stage.bus, stage.queue, 2, LEASE_MS)
    equal([job.id for job in claimed.jobs], [fine], "the claimed jobs")
