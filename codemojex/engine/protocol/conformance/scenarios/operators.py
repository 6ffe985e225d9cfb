"""Scenarios of an operator's verbs: look, count, pause, drain, remove, give another life."""

from __future__ import annotations

from codemojex.engine.errors import AtCeiling, InvalidValue, Locked, WrongState
from codemojex.engine.inspection import admin, metrics
from codemojex.engine.jobs import claims, jobs
from codemojex.engine.jobs.jobs import Dedup
from codemojex.engine.jobs.outcome import Discard
from codemojex.engine.jobs.settlement import Gone, Settled
from codemojex.engine.lanes import lanes, limits
from codemojex.engine.protocol.conformance.fixture import LEASE_MS, ScenarioFixture, equal, refused, that


async def counts(stage: ScenarioFixture) -> None:
    """Each set has its own size; a state that does not exist is an error."""
    made = await stage.fill(*[None] * 4)
    await jobs.enqueue_in(stage.bus, stage.queue, stage.id(), b"x", 60_000)
    dead, done, _ = await stage.take(3)
    await stage.settle(dead, Discard("no"))
    await stage.settle(done)
    names = ["pending", "active", "schedule", "dead", "completed", "failed"]
    found = await metrics.get_counts(stage.bus, stage.queue, names)
    equal(dict(found), dict.fromkeys(names, 1), "the counts")
    equal(list(await stage.scores("pending")), made[3:], "the backlog, raw")
    await refused(metrics.get_counts(stage.bus, stage.queue, ["nonsense"]), InvalidValue, "an unknown state")


async def state(stage: ScenarioFixture) -> None:
    """A job's state is the set it stands in; a job of a lane reads pending; a missing one reads absent."""
    lane = stage.lane(1)
    flat, grouped, held, buried = await stage.fill(None, lane, None, None)
    later = stage.id()
    await jobs.enqueue_in(stage.bus, stage.queue, later, b"x", 60_000)
    await stage.raw("ZREM", "pending", flat)
    _, dead = await claims.claim_batch(stage.bus, stage.queue, 2, LEASE_MS)
    await stage.raw("ZADD", "pending", 0, flat)
    await stage.settle(dead, Discard("no"))
    wanted = {flat: "pending", grouped: "pending", held: "active", buried: "dead", later: "scheduled"}
    for job_id, name in {**wanted, stage.id(): "absent"}.items():
        equal(await admin.get_job_state(stage.bus, stage.queue, job_id), name, f"the state of {job_id}")
    equal({job_id: (await stage.row(job_id))["state"] for job_id in wanted}, wanted, "the rows' states")


async def metrics_scenario(stage: ScenarioFixture) -> None:
    """A completion adds one to the total; the lists of data points stay empty."""
    await stage.fill(None, None, None)
    for number, job in enumerate(await stage.take(3), 1):
        await stage.settle(job)
        equal(await stage.hash("metrics:completed"), {"count": str(number)}, "the total")
    equal(await stage.kind("metrics:completed:data"), "none", "the data points")
    equal(await stage.kind("metrics:failed"), "none", "the total of failures")


async def rate(stage: ScenarioFixture) -> None:
    """The concurrency gate refuses at the ceiling and is open below it."""
    await stage.fill(None, None)
    await limits.set_concurrency(stage.bus, stage.queue, 1)
    equal((await stage.hash("meta"))["concurrency"], "1", "the ceiling, raw")
    await limits.require_seat(stage.bus, stage.queue)
    (job,) = await stage.take()
    text = str(await refused(limits.require_seat(stage.bus, stage.queue), AtCeiling, "at the ceiling"))
    that(text.startswith("EMQRATE"), f"the refusal begins with EMQRATE, not {text!r}")
    await stage.settle(job)
    await limits.require_seat(stage.bus, stage.queue)


async def queue_pause(stage: ScenarioFixture) -> None:
    """A paused queue hands out nothing, flat or from lanes; resumed it begins at the same head."""
    made = await stage.fill(None, stage.lane(1), None)
    await admin.pause(stage.bus, stage.queue)
    that("paused" in await stage.hash("meta"), "the field paused stands in meta")
    claimed = await claims.claim_many(stage.bus, stage.queue, 3, LEASE_MS)
    equal((len(claimed.jobs), claimed.paused), (0, True), "a claim while paused")
    equal(await claims.claim(stage.bus, stage.queue, LEASE_MS), None, "a flat claim while paused")
    equal(await lanes.claim(stage.bus, stage.queue, LEASE_MS), None, "a lane's claim while paused")
    equal(list(await stage.scores("pending")), [made[0], made[2]], "the backlog while paused")
    equal(len(await stage.items("ring")), 1, "the ring while paused")
    await admin.resume(stage.bus, stage.queue)
    equal("paused" in await stage.hash("meta"), False, "the field paused after resume")
    job = await claims.claim(stage.bus, stage.queue, LEASE_MS)
    equal(job and job.id, made[0], "the head after resume")


async def drain(stage: ScenarioFixture) -> None:
    """Drain empties the backlog with its rows, the schedule only if asked; what is in flight survives."""
    held_id, *waiting = await stage.fill(None, None, None)
    await stage.raw("RPUSH", f"job:{waiting[0]}:logs", "a line")
    later = stage.id()
    await jobs.enqueue_in(stage.bus, stage.queue, later, b"x", 60_000)
    (held,) = await stage.take()
    equal(await admin.drain(stage.bus, stage.queue), 2, "deleted jobs")
    rest = {f"job:{held_id}", f"job:{later}", "active", "schedule"}
    equal(set(await stage.keys()) - {"wake"}, rest, "the keys that stay")
    equal(await admin.drain(stage.bus, stage.queue, include_schedule=True), 1, "deleted jobs of the schedule")
    equal(set(await stage.keys()) - {"wake"}, {f"job:{held_id}", "active"}, "the keys that stay then")
    equal(await stage.settle(held), Settled("completed"), "the settlement of the job in flight")


async def obliterate(stage: ScenarioFixture) -> None:
    """Obliterate is refused unless paused, and with jobs in flight unless forced; then nothing is left."""
    await stage.fill(*[None] * 5)
    await jobs.enqueue_in(stage.bus, stage.queue, stage.id(), b"x", 60_000)
    (job, dead) = await stage.take(2)
    await stage.settle(dead, Discard("no"))
    for what in ("not paused", "jobs in flight"):
        text = str(await refused(admin.obliterate(stage.bus, stage.queue), WrongState, what))
        that(text.startswith("EMQSTATE"), f"the refusal begins with EMQSTATE, not {text!r}")
        equal(await stage.raw("ZCARD", "pending"), 3, f"the backlog after the refusal ({what})")
        await admin.pause(stage.bus, stage.queue)
    steps = 0
    while not await admin.obliterate(stage.bus, stage.queue, force=True, budget=2):
        steps += 1
        that(steps < 50, "a bounded number of bounded steps")
    that(steps >= 2, "a small budget takes several steps")
    equal(await stage.keys(), {}, "the queue's keys")
    equal(await stage.settle(job), Gone(), "the settlement of a job that was in flight")


async def obliterate_grouped(stage: ScenarioFixture) -> None:
    """Obliterating a queue of lanes, served, paused and resting, leaves no key at all."""
    a, b, c = (stage.lane(i) for i in range(3))
    await stage.fill(a, b, b, c)
    await lanes.pause(stage.bus, stage.queue, b)
    await lanes.park(stage.bus, stage.queue, c, 60_000)
    await lanes.limit(stage.bus, stage.queue, a, 3)
    await lanes.weight(stage.bus, stage.queue, a, 2)
    await admin.pause(stage.bus, stage.queue)
    that(await admin.obliterate(stage.bus, stage.queue), "one call is enough")
    equal(await stage.keys(), {}, "the queue's keys")


async def update_data(stage: ScenarioFixture) -> None:
    """A payload is replaced, and only that; a missing job is typed absent and no row is made."""
    (job_id,) = await stage.fill(None)
    that(await admin.update_data(stage.bus, stage.queue, job_id, b"new\x00"), "the job is there")
    row = await stage.raw("HGETALL", f"job:{job_id}")
    equal(row, {b"state": b"pending", b"attempts": b"0", b"payload": b"new\x00"}, "the row")
    ghost = stage.id()
    equal(await admin.update_data(stage.bus, stage.queue, ghost, b"x"), False, "a missing job")
    equal(await stage.kind(f"job:{ghost}"), "none", "the row of a missing job")


async def remove_job(stage: ScenarioFixture) -> None:
    """A job is removed with its logs and idempotency key; a locked one is refused and stays untouched."""
    job = stage.job(dedup=Dedup("once", 60_000))
    await stage.put(job)
    await stage.raw("RPUSH", f"job:{job.id}:logs", "a line")
    await stage.raw("SET", f"job:{job.id}:lock", "1", "PX", 60_000)
    before = await stage.keys()
    text = str(await refused(admin.remove_job(stage.bus, stage.queue, job.id), Locked, "a locked job"))
    that(text.startswith("EMQLOCK"), f"the refusal begins with EMQLOCK, not {text!r}")
    equal(await stage.keys(), before, "the keys after the refusal")
    await stage.raw("DEL", f"job:{job.id}:lock")
    that(await admin.remove_job(stage.bus, stage.queue, job.id), "the job is removed")
    equal(list(await stage.keys()), ["wake"], "the keys after the removal")
    equal(await admin.remove_job(stage.bus, stage.queue, job.id), False, "a missing job")


async def reprocess_job(stage: ScenarioFixture) -> None:
    """A dead letter waits again, its error cleared, its token going on; a job that is not dead is refused."""
    lane = stage.lane(1)
    job_id, other = await stage.fill(lane, None)
    taken = {job.id: job for job in await stage.take(2)}
    await stage.settle(taken[job_id], Discard("no"))
    that(await admin.reprocess(stage.bus, stage.queue, job_id), "the dead letter is there")
    row = await stage.row(job_id)
    wanted = {"state": "pending", "attempts": "1", "payload": "x", "group": lane, "counted": "1"}
    equal(row, wanted, "the row")
    equal(await stage.kind("dead"), "none", "the dead letters")
    equal(await stage.scores(f"g:{lane}:pending"), {job_id: 0.0}, "its lane")
    text = str(await refused(admin.reprocess(stage.bus, stage.queue, other), WrongState, "a job in flight"))
    that(text.startswith("EMQSTATE"), f"the refusal begins with EMQSTATE, not {text!r}")
    equal(await admin.reprocess(stage.bus, stage.queue, stage.id()), False, "a missing job")
    equal((await stage.take())[0].token, "2", "the token of the next claim")
    await stage.sound()


async def unknown_state(stage: ScenarioFixture) -> None:
    """A row that stands in no set reads unknown, which is not absent."""
    (job_id,) = await stage.fill(None)
    await stage.raw("ZREM", "pending", job_id)
    equal(await admin.get_job_state(stage.bus, stage.queue, job_id), "unknown", "a row in no set")
    equal(await admin.get_job_state(stage.bus, stage.queue, stage.id()), "absent", "no row")


async def rate_consult(stage: ScenarioFixture) -> None:
    """Consulting and then skipping leaves the jobs in flight at the ceiling; a completion reopens."""
    await stage.fill(*[None] * 4)
    await limits.set_concurrency(stage.bus, stage.queue, 2)
    held: list[jobs.Job] = []
    for _ in range(4):
        try:
            await limits.require_seat(stage.bus, stage.queue)
        except AtCeiling:
            continue
        held += await stage.take()
    equal((len(held), await stage.raw("ZCARD", "active")), (2, 2), "jobs in flight")
    await stage.settle(held[0])
    await limits.require_seat(stage.bus, stage.queue)
    await stage.take()
    equal(await stage.raw("ZCARD", "active"), 2, "jobs in flight after one completion and one claim")


async def dedup_release(stage: ScenarioFixture) -> None:
    """Removal frees the named idempotency key only while it points at the job; an orphan stays."""
    first, second = await stage.fill(None, None)
    await stage.raw("SET", "de:mine", first)
    await stage.raw("SET", "de:orphan", stage.id())
    that(await admin.remove_job(stage.bus, stage.queue, first, "mine"), "the first job is removed")
    equal(await stage.text("de:mine"), None, "its key")
    that(await admin.remove_job(stage.bus, stage.queue, second, "orphan"), "the second job is removed")
    that(await stage.text("de:orphan") is not None, "a key that points at another job stays")
