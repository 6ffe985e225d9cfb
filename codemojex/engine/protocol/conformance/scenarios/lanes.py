"""Scenarios of lanes: the rota, pauses, ceilings, weights, and moving work between lanes."""

from __future__ import annotations

from collections import Counter

from codemojex.engine.lanes import lanes, limits
from codemojex.engine.maintenance import recovery
from codemojex.engine.protocol.conformance.fixture import LEASE_MS, ScenarioFixture, equal, that


async def rotate(stage: ScenarioFixture) -> None:
    """Two lanes with two jobs each are served in turn; rows carry their lane, and the ring is a list of lanes."""
    a, b = stage.lane(1), stage.lane(2)
    made = await stage.fill(a, a, b, b)
    equal((await stage.row(made[0]))["group"], a, "the row's lane")
    equal(await stage.scores(f"g:{a}:pending"), {made[0]: 0.0, made[1]: 0.0}, "the first lane")
    equal(await stage.items("ring"), [a, b], "the ring: each lane once, in the order of their first jobs")
    served = [await lanes.claim(stage.bus, stage.queue, LEASE_MS) for _ in range(4)]
    equal([job and job.id for job in served], [made[0], made[2], made[1], made[3]], "the turns a, b, a, b")
    equal(await stage.hash("gactive"), {a: "2", b: "2"}, "the seats")
    equal(await stage.kind("ring"), "none", "the ring of empty lanes")
    await stage.sound()


async def pause(stage: ScenarioFixture) -> None:
    """A paused lane leaves the ring and keeps its backlog; resumed it is served again."""
    a, b = stage.lane(1), stage.lane(2)
    made = await stage.fill(a, b)
    await lanes.pause(stage.bus, stage.queue, a)
    equal(
        (await stage.kind("paused"), list(await stage.raw("SMEMBERS", "paused"))),
        ("set", [a.encode()]),
        "the paused lanes",
    )
    equal(await stage.items("ring"), [b], "the ring")
    equal([job.id for job in await stage.take()], [made[1]], "the served job")
    equal(await lanes.claim(stage.bus, stage.queue, LEASE_MS), None, "a claim with only a paused lane left")
    equal(list(await stage.scores(f"g:{a}:pending")), [made[0]], "the paused backlog")
    await lanes.resume(stage.bus, stage.queue, a)
    equal(await stage.kind("paused"), "none", "the paused lanes after resume")
    equal([job.id for job in await stage.take()], [made[0]], "the served job after resume")
    await stage.sound()


async def limit(stage: ScenarioFixture) -> None:
    """With a ceiling of 1 the second claim is empty; a completion reopens the lane."""
    lane = stage.lane(1)
    made = await stage.fill(lane, lane)
    await lanes.limit(stage.bus, stage.queue, lane, 1)
    equal(await stage.hash("glimit"), {lane: "1"}, "the ceilings")
    (job,) = await stage.take()
    equal(await stage.kind("ring"), "none", "the ring while the lane is full")
    equal(await lanes.claim(stage.bus, stage.queue, LEASE_MS), None, "the second claim")
    await stage.settle(job)
    equal(await stage.items("ring"), [lane], "the ring after completion")
    equal([again.id for again in await stage.take()], [made[1]], "the next job")
    await stage.sound()


async def lane_depth(stage: ScenarioFixture) -> None:
    """Each lane has a depth of its own."""
    a, b, c = (stage.lane(i) for i in range(3))
    await stage.fill(a, a, a, b)
    equal(await lanes.depth(stage.bus, stage.queue, a), 3, "the depth of one lane")
    equal(await lanes.depths(stage.bus, stage.queue, [a, b, c]), [3, 1, 0], "the depths")
    equal(await stage.raw("ZCARD", f"g:{a}:pending"), 3, "its size, raw")


async def reassign(stage: ScenarioFixture) -> None:
    """A waiting job moves to another lane: set and row change, its seat is charged there; the same lane is a noop."""
    a, b = stage.lane(1), stage.lane(2)
    (job_id,) = await stage.fill(a)
    equal(await lanes.move(stage.bus, stage.queue, job_id, a), "noop", "to its own lane")
    equal(await lanes.move(stage.bus, stage.queue, job_id, b), "moved", "to another")
    equal((await stage.row(job_id))["group"], b, "the row's lane")
    equal(await stage.kind(f"g:{a}:pending"), "none", "the lane it left")
    equal(await stage.scores(f"g:{b}:pending"), {job_id: 0.0}, "the lane it entered")
    equal(await stage.items("ring"), [b], "the ring")
    (job,) = await stage.take()
    equal((job.lane, await stage.hash("gactive")), (b, {b: "1"}), "lane and seat of the claim")
    equal(await lanes.move(stage.bus, stage.queue, job_id, a), "not_pending", "in flight")
    equal(await lanes.move(stage.bus, stage.queue, stage.id(), a), "not_found", "a job that does not exist")
    await stage.settle(job)
    await stage.sound()


async def lane_drain(stage: ScenarioFixture) -> None:
    """Draining a lane takes its rows, logs, backlog and place; its sibling, its seats and the repeats stay."""
    a, b = stage.lane(1), stage.lane(2)
    made = await stage.fill(a, a, a, b)
    (held,) = await stage.take()
    await stage.raw("RPUSH", f"job:{made[1]}:logs", "a line")
    await stage.raw("ZADD", "repeat", 9_000_000_000_000, "nightly")
    equal(await lanes.drain(stage.bus, stage.queue, a), 2, "deleted jobs")
    equal(
        await stage.keys(),
        {
            f"job:{held.id}": "hash",
            f"job:{made[3]}": "hash",
            f"g:{b}:pending": "zset",
            "active": "zset",
            "gactive": "hash",
            "repeat": "zset",
            "ring": "list",
            "wake": "list",
        },
        "the queue's keys",
    )
    equal(await stage.hash("gactive"), {a: "1"}, "the seats")
    equal(await stage.items("ring"), [b], "the ring")
    await stage.sound()


async def reap_group(stage: ScenarioFixture) -> None:
    """Recovery of one lane takes its lapsed jobs only; the sibling stays in flight and seats are right."""
    a, b = stage.lane(1), stage.lane(2)
    made = await stage.fill(a, b, a)
    await stage.take(3)
    await stage.lapse(made[0], made[1])
    recovered = await recovery.recover(stage.bus, stage.queue, lane=a)
    equal(recovered.waiting, [made[0]], "the recovered ids")
    equal(list(await stage.scores(f"g:{a}:pending")), [made[0]], "the lane")
    equal(set(await stage.scores("active")), {made[1], made[2]}, "the jobs in flight")
    equal(await stage.hash("gactive"), {a: "1", b: "1"}, "the seats")
    await stage.sound()


async def weighted_proportion(stage: ScenarioFixture) -> None:
    """Weights 3 and 1 give about three jobs to one; the lighter lane is never left out."""
    heavy, light = stage.lane(1), stage.lane(2)
    await lanes.weight(stage.bus, stage.queue, heavy, 3)
    equal(await stage.hash("gweight"), {heavy: "3"}, "the weights")
    await stage.fill(*[heavy] * 60, *[light] * 60)
    served: Counter[str | None] = Counter()
    for _ in range(20):
        served.update(job.lane for job in await lanes.claim_turn(stage.bus, stage.queue, LEASE_MS))
    that(served[light] > 0, "the light lane is served")
    that(2 <= served[heavy] / served[light] <= 4, f"3:1 within 2 and 4, not {served[heavy]}:{served[light]}")
    steady = Counter(job.lane for job in await stage.take(40))
    equal(steady, {heavy: 30, light: 10}, "one claim over both lanes")
    await stage.sound()


async def starvation_drill(stage: ScenarioFixture) -> None:
    """A heavy lane with 200 jobs hides no light lane: both are served within nine turns, and all drains."""
    heavy, *light = (stage.lane(i) for i in range(3))
    await lanes.weight(stage.bus, stage.queue, heavy, 5)
    await stage.fill(*[heavy] * 200)
    await stage.fill(*light)
    first: set[str | None] = set()
    drained = 0
    for turn in range(300):
        jobs = await lanes.claim_turn(stage.bus, stage.queue, LEASE_MS)
        drained += len(jobs)
        first |= {job.lane for job in jobs} if turn < 9 else set()
        if not jobs:
            break
    equal(first, {heavy, *light}, "the lanes of the first nine turns")
    equal(drained, 202, "all drained")
    await stage.sound()


async def grouped_batch_affinity(stage: ScenarioFixture) -> None:
    """A batch comes from one lane and has one deadline."""
    a, b = stage.lane(1), stage.lane(2)
    made = await stage.fill(a, b, a, b, a)
    batch = await lanes.claim_batch(stage.bus, stage.queue, LEASE_MS)
    equal([job.id for job in batch], made[::2], "the batch: one lane, oldest first")
    equal({job.lane for job in batch}, {a}, "its lane")
    equal(len(set((await stage.scores("active")).values())), 1, "deadlines")
    equal(await stage.hash("gactive"), {a: "3"}, "the seats")
    rest = await lanes.claim_batch(stage.bus, stage.queue, LEASE_MS)
    equal({job.lane for job in rest}, {b}, "the lane of the next batch")
    await stage.sound()


async def grouped_batch_ceiling(stage: ScenarioFixture) -> None:
    """With a ceiling of 3 a batch of 8 gives 3, then nothing; one completion gives the next one."""
    lane = stage.lane(1)
    await lanes.limit(stage.bus, stage.queue, lane, 3)
    made = await stage.fill(*[lane] * 8)
    batch = await lanes.claim_batch(stage.bus, stage.queue, LEASE_MS)
    equal([job.id for job in batch], made[:3], "the batch")
    equal(await lanes.claim_batch(stage.bus, stage.queue, LEASE_MS), [], "the next batch")
    equal(await stage.kind("ring"), "none", "the ring while the lane is full")
    await stage.settle(batch[0])
    after = await lanes.claim_batch(stage.bus, stage.queue, LEASE_MS)
    equal([job.id for job in after], made[3:4], "the batch after one completion")
    equal(await stage.hash("gactive"), {lane: "3"}, "the seats")
    await stage.sound()


async def grouped_batch_fairness(stage: ScenarioFixture) -> None:
    """With ceilings, light lanes get a batch within nine turns beside a flooding lane; all drains."""
    flood, *light = (stage.lane(i) for i in range(3))
    await limits.set_default_lane_limit(stage.bus, stage.queue, 4)
    await stage.fill(*[flood] * 60)
    await stage.fill(*light, *light)
    first: set[str | None] = set()
    drained = 0
    for turn in range(100):
        batch = await lanes.claim_batch(stage.bus, stage.queue, LEASE_MS)
        that(len(batch) <= 4, f"a batch keeps the ceiling of 4, not {len(batch)}")
        first |= {job.lane for job in batch} if turn < 9 else set()
        drained += len(batch)
        for job in batch:
            await stage.settle(job)
        if not batch:
            break
    equal(first, {flood, *light}, "the lanes of the first nine batches")
    equal(drained, 64, "all drained")
    await stage.sound()


async def weighted_turn(stage: ScenarioFixture) -> None:
    """A weighted turn that a claim's own bound cut short goes on with the next claim, and counts once for flat work."""
    heavy, light = stage.lane(1), stage.lane(2)
    await lanes.weight(stage.bus, stage.queue, heavy, 3)
    await stage.fill(*[heavy] * 6, *[light] * 2, None)
    turns = [[job.lane for job in await stage.take(n)] for n in (2, 1, 1, 1, 4)]
    equal(turns, [[heavy] * 2, [heavy], [light], [None], [heavy, heavy, heavy, light]], "the lanes of the claims")
    await stage.sound()
