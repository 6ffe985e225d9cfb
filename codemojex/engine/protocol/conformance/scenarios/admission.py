"""Scenarios of admission: the fence, rows, order, idempotency, and producers with several connections."""

from __future__ import annotations

import asyncio

from codemojex.engine import ids, keyspace
from codemojex.engine.errors import WrongKind
from codemojex.engine.inspection import admin
from codemojex.engine.jobs import claims, jobs
from codemojex.engine.jobs.jobs import Dedup, Duplicate, Enqueued, Scheduled
from codemojex.engine.maintenance import promotion
from codemojex.engine.protocol.conformance.fixture import LEASE_MS, ScenarioFixture, equal, refused, that


async def fence(stage: ScenarioFixture) -> None:
    """The version key is set before any work and equals this engine's wire version."""
    await stage.connect()
    found = await stage.bus.execute("GET", keyspace.VERSION_KEY)
    equal(found, keyspace.WIRE_VERSION.encode(), "the version key")
    equal((await stage.bus.execute("TYPE", keyspace.VERSION_KEY)).decode(), "string", "its type")


async def mint(stage: ScenarioFixture) -> None:
    """An admitted job is a row of exactly state, attempts and payload, and a member of the backlog with score 0."""
    job_id = stage.id()
    payload = bytes(range(256))
    equal(await jobs.enqueue(stage.bus, stage.queue, job_id, payload), Enqueued(), "the verdict")
    row = await stage.raw("HGETALL", f"job:{job_id}")
    equal(row, {b"state": b"pending", b"attempts": b"0", b"payload": payload}, "the row")
    equal(await stage.scores("pending"), {job_id: 0.0}, "the backlog")
    equal(
        await stage.keys(),
        {f"job:{job_id}": "hash", "pending": "zset", "wake": "list"},
        "the queue's keys",
    )
    equal(await stage.items("wake"), ["1"], "the wake tokens")


async def duplicate(stage: ScenarioFixture) -> None:
    """A second admission of an id answers duplicate and changes nothing, wherever the first one is."""
    job_id = stage.id()
    await jobs.enqueue(stage.bus, stage.queue, job_id, b"first")
    equal(await jobs.enqueue(stage.bus, stage.queue, job_id, b"first"), Duplicate(job_id), "the second verdict")
    again = await jobs.enqueue(stage.bus, stage.queue, job_id, b"other")
    equal(again, Duplicate(job_id, conflict=True), "the verdict of another payload")
    equal((await stage.row(job_id))["payload"], "first", "the payload")
    equal(await stage.scores("pending"), {job_id: 0.0}, "the backlog")
    (job,) = await stage.take()
    equal(await jobs.enqueue(stage.bus, stage.queue, job.id, b"first"), Duplicate(job_id), "while it is in flight")
    equal(await stage.kind("pending"), "none", "the backlog while it is in flight")


async def kind(stage: ScenarioFixture) -> None:
    """An id that is not a JOB is refused, flat, in a lane and scheduled, and no key is created."""
    order = stage.id("ORD")
    text = str(await refused(jobs.enqueue(stage.bus, stage.queue, order, b"x"), WrongKind, "an ORD id"))
    that(text.startswith("EMQKIND"), f"the refusal begins with EMQKIND, not {text!r}")
    lane = jobs.NewJob(order, b"x", lane=stage.lane(1))
    await refused(jobs.admit(stage.bus, stage.queue, lane), WrongKind, "an ORD id in a lane")
    await refused(jobs.enqueue_in(stage.bus, stage.queue, order, b"x", 50), WrongKind, "an ORD id with a delay")
    equal(await stage.keys(), {}, "the queue's keys")


async def order(stage: ScenarioFixture) -> None:
    """The backlog in byte order is the order of minting; walked backwards it gives the newest first."""
    made = await stage.fill(*[None] * 6)
    equal(made, sorted(made), "ids in the order of minting")
    raw = await stage.raw("ZRANGE", "pending", "+", "-", "BYLEX", "REV", "LIMIT", 0, 4)
    equal([member.decode() for member in raw], made[:1:-1], "the four newest, raw")
    equal(await admin.browse(stage.bus, stage.queue, 4), made[:1:-1], "the four newest")
    claimed = await claims.claim_batch(stage.bus, stage.queue, 6, LEASE_MS)
    equal([job.id for job in claimed], made, "the order of claims")


async def schedule_scenario(stage: ScenarioFixture) -> None:
    """A delayed job stands in the schedule under its due time, and no claim sees it until it is promoted."""
    before = await stage.now_ms()
    soon, late = stage.id(), stage.id()
    equal(await jobs.enqueue_in(stage.bus, stage.queue, soon, b"s", 60_000), Scheduled(), "the verdict of a delay")
    at_ms = before + 120_000
    equal(await jobs.enqueue_at(stage.bus, stage.queue, late, b"l", at_ms), Scheduled(), "the verdict of a time")
    after = await stage.now_ms()
    scores = await stage.scores("schedule")
    that(before + 60_000 <= scores[soon] <= after + 60_000, f"due a minute from the server's now, not {scores[soon]}")
    equal(scores[late], float(at_ms), "the due time given")
    equal(await stage.row(soon), {"state": "scheduled", "attempts": "0", "payload": "s"}, "the row")
    equal(await claims.claim(stage.bus, stage.queue, LEASE_MS), None, "a claim before its time")
    equal((await promotion.promote(stage.bus, stage.queue)).jobs, 0, "promotions before its time")
    await stage.due(soon)
    equal((await promotion.promote(stage.bus, stage.queue)).jobs, 1, "promotions at its time")
    equal(await stage.scores("schedule"), {late: float(at_ms)}, "the schedule")
    equal(await stage.scores("pending"), {soon: 0.0}, "the backlog")
    job = await claims.claim(stage.bus, stage.queue, LEASE_MS)
    that(job is not None and job.id == soon and job.token == "1", f"the promoted job is claimed, not {job}")


async def dedup(stage: ScenarioFixture) -> None:
    """A parked idempotency key reads back the id of its job, whoever parked it; an absent key reads as absent."""
    job = stage.job(dedup=Dedup("order-1", 60_000))
    equal(await stage.put(job), [Enqueued()], "the verdict")
    equal(await stage.text("de:order-1"), job.id, "the parked key, raw")
    ttl = await stage.raw("PTTL", "de:order-1")
    that(0 < ttl <= 60_000, f"it lives for its window, not {ttl} ms")
    equal(await admin.get_dedup(stage.bus, stage.queue, "order-1"), job.id, "the parked key")
    await stage.raw("SET", "de:from-a-peer", job.id)
    equal(await admin.get_dedup(stage.bus, stage.queue, "from-a-peer"), job.id, "a key that a peer parked")
    equal(await admin.get_dedup(stage.bus, stage.queue, "absent"), None, "an absent key")


async def pool_enqueue(stage: ScenarioFixture) -> None:
    """Through a pool a duplicate is a duplicate, and a row is what a single connection writes."""
    single, pool = await stage.connect(max_connections=1), await stage.connect(max_connections=4)
    first, second = stage.id(), stage.id()
    equal(await jobs.enqueue(single, stage.queue, first, b"same"), Enqueued(), "the verdict of one connection")
    verdicts = await asyncio.gather(
        jobs.enqueue(pool, stage.queue, second, b"same"), jobs.enqueue(pool, stage.queue, first, b"same")
    )
    equal(verdicts, [Enqueued(), Duplicate(first)], "the verdicts of the pool")
    equal(await stage.row(second), await stage.row(first), "the rows")


async def pool_order(stage: ScenarioFixture) -> None:
    """The order of claims is the order of minting, whichever connection admitted."""
    pools = [await stage.connect(max_connections=2) for _ in range(3)]
    made = [stage.id() for _ in range(24)]
    await asyncio.gather(
        *(jobs.enqueue(pools[i % 3], stage.queue, job_id, b"x") for i, job_id in reversed(list(enumerate(made))))
    )
    equal(list(await stage.scores("pending")), made, "the backlog, raw")
    claimed = await claims.claim_batch(stage.bus, stage.queue, 24, LEASE_MS)
    equal([job.id for job in claimed], made, "the order of claims")
    that(all(ids.is_valid(job.id) for job in claimed), "every id is a branded id")
