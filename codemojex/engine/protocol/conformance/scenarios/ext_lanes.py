"""Our own scenarios, constant cost and fair batches: sections 7.1 and 7.2."""

from __future__ import annotations

import asyncio
from collections import Counter

from codemojex.engine.inspection import audit
from codemojex.engine.jobs import claims, jobs, settlement
from codemojex.engine.jobs.jobs import AdmissionRefused, Duplicate, Enqueued, Scheduled
from codemojex.engine.jobs.outcome import Complete, Delay, Retry
from codemojex.engine.jobs.settlement import Gone, Settled, Settlement, Stale
from codemojex.engine.lanes import lanes, limits
from codemojex.engine.maintenance import promotion, recovery
from codemojex.engine.protocol.conformance.fixture import LEASE_MS, ScenarioFixture, equal, that
from codemojex.engine.worker.worker import Worker


async def _commands(stage: ScenarioFixture) -> Counter[str]:
    """How often the server ran each command, inside scripts as well."""
    lines = (await stage.bus.at(stage.space.prefix, "INFO", "commandstats")).decode().split()
    pairs = [line.removeprefix("cmdstat_").split(":calls=") for line in lines if line.startswith("cmdstat_")]
    return Counter({name: int(rest.partition(",")[0]) for name, rest in pairs})


async def _day(stage: ScenarioFixture) -> int:
    """Admit, claim and settle in the usual ways; how many commands that took, the least of three tries."""
    prices: list[int] = []
    for _ in range(3):
        before = await _commands(stage)
        await stage.fill(*(stage.lane(i) for i in range(20)))
        held = await stage.take(10)
        items = [
            Settlement(job.id, job.token, Retry("no", 60_000) if i % 3 else Complete()) for i, job in enumerate(held)
        ]
        await settlement.settle_and_claim(stage.bus, stage.queue, items, 10, LEASE_MS)
        prices.append((await _commands(stage) - before).total())
    return min(prices)


async def flat_cost(stage: ScenarioFixture) -> None:
    """Admission, claim and settlement take as many commands with 2,000 lanes as with 20, and none of them scans."""
    few = await _day(stage)
    await stage.fill(*(stage.lane(i) for i in range(2_000)))
    before = await _commands(stage)
    many = await _day(stage)
    that(many <= few * 1.2, f"commands with 2,000 lanes: {many}; with 20: {few}")
    scans = {name: n for name, n in (await _commands(stage) - before).items() if name in ("lpos", "lrem", "keys")}
    that(not scans, f"no command scans the ring: {scans}")


async def ring_follows(stage: ScenarioFixture) -> None:
    """A lane stands in the ring exactly while it has work and may be served, each at most once, at every step."""
    a, b = stage.lane(1), stage.lane(2)

    async def ring(*wanted: str) -> None:
        equal(await stage.items("ring"), list(wanted), "the ring")
        await stage.sound()

    await stage.fill(a, a, a)
    await ring(a)
    await stage.fill(b)
    await ring(a, b)
    first, only = await stage.take(2)
    await ring(a)
    await lanes.limit(stage.bus, stage.queue, a, 1)
    await ring()
    await stage.settle(first, Retry("no", 60_000))
    await ring(a)
    await stage.due(first.id)
    await promotion.promote(stage.bus, stage.queue)
    (second,) = await stage.take()
    await ring()
    await stage.lapse(second.id, only.id)
    await recovery.recover(stage.bus, stage.queue)
    equal(set(await stage.items("ring")), {a, b}, "the ring after lapsed leases")
    await stage.sound()


async def audit_repair(stage: ScenarioFixture) -> None:
    """The audit names what a crash of another program left behind, repairs it on request, and is clean afterwards."""
    a, b = stage.lane(1), stage.lane(2)
    waiting, twice = await stage.fill(a, None)
    await stage.raw("DEL", "ring")
    await stage.raw("RPUSH", "ring", b, b)
    await stage.raw("HSET", "gactive", a, 7)
    await stage.raw("ZADD", "dead", 0, twice)
    await stage.raw("ZADD", "active", 9_000_000_000_000, stage.id())
    found = await audit.audit(stage.bus, stage.queue)
    subjects = {violation.subject for violation in found}
    that({a, b, twice} <= subjects and len(found) >= 5, f"every fault is named, not only {found}")
    equal(await stage.items("ring"), [b, b], "the ring after looking only")
    await audit.audit(stage.bus, stage.queue, repair=True)
    await stage.sound()
    equal((await stage.row(waiting))["state"], "pending", "the row of the lane's job")
    equal(await stage.items("ring"), [a], "the repaired ring")


async def admit_many(stage: ScenarioFixture) -> None:
    """A batch of 1,200 with and without lanes and delays has a verdict per item in order; a bad one spoils none."""
    good = [stage.job(lane=stage.lane(i % 3) if i % 2 else None) for i in range(1_200)]
    later = stage.job(delay_ms=60_000)
    order = jobs.NewJob(stage.id("ORD"), b"x")
    verdicts = await stage.put(*good[:700], good[0], order, later, *good[700:])
    equal(verdicts[:700] + verdicts[703:], [Enqueued()] * 1_200, "the good ones")
    equal(verdicts[700], Duplicate(good[0].id), "the repeated one")
    that(
        isinstance(verdicts[701], AdmissionRefused) and verdicts[701].reason.startswith("EMQKIND"),
        "the ORD id is refused",
    )
    equal(verdicts[702], Scheduled(), "the delayed one")
    equal(await stage.raw("ZCARD", "pending"), 600, "the flat backlog")
    equal(await stage.kind(f"job:{order.id}"), "none", "the row of the refused one")
    await stage.sound()


async def claim_many(stage: ScenarioFixture) -> None:
    """One claim takes a job per lane in turn, so a flooding lane takes nothing from the others; one deadline."""
    flood, *light = (stage.lane(i) for i in range(5))
    await stage.fill(*[flood] * 100)
    await stage.fill(*light)
    held = await stage.take(8)
    equal(Counter(job.lane for job in held), {flood: 4, **dict.fromkeys(light, 1)}, "jobs of a claim of 8")
    equal(len(set((await stage.scores("active")).values())), 1, "deadlines")
    await stage.fill(None)
    claimed = await claims.claim_many(stage.bus, stage.queue, 3, LEASE_MS)
    that(None in {job.lane for job in claimed.jobs}, "flat work has its turn beside lanes")
    await stage.sound()


async def claim_bytes(stage: ScenarioFixture) -> None:
    """A claim stops at its bound of bytes; the rest of the backlog keeps its place."""
    made = await stage.fill(*[None] * 6, payload=b"x" * 1_000)
    claimed = await claims.claim_many(stage.bus, stage.queue, 6, LEASE_MS, max_bytes=2_500)
    equal([job.id for job in claimed.jobs], made[:3], "the jobs of a bounded claim")
    equal(list(await stage.scores("pending")), made[3:], "the backlog")


async def settle_many(stage: ScenarioFixture) -> None:
    """Completions, retries, delays of one call are fenced each by itself, one verdict each."""
    lane = stage.lane(1)
    await stage.fill(*[lane] * 4)
    held = await stage.take(4)
    items = [
        Settlement(held[0].id, held[0].token, Complete()),
        Settlement(held[1].id, "99", Complete()),
        Settlement(held[1].id, held[1].token, Retry("no", 60_000)),
        Settlement(stage.id(), "1", Complete()),
        Settlement(held[2].id, held[2].token, Delay(60_000)),
        Settlement(held[0].id, held[0].token, Complete()),
    ]
    verdicts = await settlement.settle_many(stage.bus, stage.queue, items)
    wanted = [Settled("completed"), Stale(), Settled("scheduled"), Gone(), Settled("scheduled"), Gone()]
    equal(verdicts, wanted, "the verdicts")
    equal(await stage.hash("gactive"), {lane: "1"}, "the seats")
    equal(await stage.count("completed"), 1, "the total")
    await stage.sound()


async def settle_and_claim(stage: ScenarioFixture) -> None:
    """One call ends what is done and claims for the free places; the freed seat counts at once."""
    lane = stage.lane(1)
    await lanes.limit(stage.bus, stage.queue, lane, 1)
    made = await stage.fill(lane, lane)
    (job,) = await stage.take()
    items = [Settlement(job.id, job.token, Complete())]
    verdicts, claimed = await settlement.settle_and_claim(stage.bus, stage.queue, items, 5, LEASE_MS)
    equal(verdicts, [Settled("completed")], "the verdicts")
    equal([next_.id for next_ in claimed.jobs], made[1:], "the jobs of the same call")
    await stage.sound()


async def same_tick(stage: ScenarioFixture) -> None:
    """Single admissions of one tick travel as one script call; each caller has its own verdict."""
    await stage.fill(None)
    made = [stage.id() for _ in range(50)]
    prices: list[int] = []
    for batch in (made[:25], made[25:]):
        before = await _commands(stage)
        calls = (jobs.enqueue(stage.bus, stage.queue, job_id, b"x") for job_id in [*batch, batch[0]])
        verdicts = await asyncio.gather(*calls)
        equal(verdicts, [Enqueued()] * 25 + [Duplicate(batch[0])], "the verdicts")
        prices.append((await _commands(stage) - before)["evalsha"])
    that(min(prices) <= 2, f"26 admissions take one script call, not {min(prices)}")


async def worker_batches(stage: ScenarioFixture) -> None:
    """A worker claims for all its free places and settles together: far fewer calls than jobs, each job once."""
    await stage.fill(*(stage.lane(i % 10) for i in range(200)))
    seen: Counter[str] = Counter()

    async def handle(job: jobs.Job) -> None:
        seen[job.id] += 1

    before = await _commands(stage)
    worker = Worker(stage.bus, stage.queue, handle)
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(worker.run())
        await stage.until(lambda: _all_done(stage, 200), "all jobs are done")
        calls = (await _commands(stage) - before)["evalsha"]
        worker.stop()
    equal((len(seen), max(seen.values())), (200, 1), "jobs, and how often each ran")
    that(calls < 120, f"200 jobs in fewer than 120 script calls, not {calls}")
    await stage.sound()


async def _all_done(stage: ScenarioFixture, n: int) -> bool:
    return await stage.count("completed") == n


async def budget(stage: ScenarioFixture) -> None:
    """A job of 100 lanes behind a limiter costs the server at most a few times what a flat job without one costs."""
    plain = stage.sibling("plain")
    await plain.fill(*[None] * 600)
    await limits.set_rate(stage.bus, stage.queue, 1_000_000, 60_000)
    await stage.fill(*(stage.lane(i % 100) for i in range(600)))
    floor, price = await _price(plain), await _price(stage)
    that(price < 4 * floor + 20, f"claim and settlement of a job: {price:.0f} µs of the server, the floor {floor:.0f}")


async def _price(stage: ScenarioFixture) -> float:
    """Microseconds of the server for claim and settlement of one job, the best of five batches."""
    prices: list[float] = []
    held = list(await stage.take(100))
    for _ in range(5):
        before = await _script_micros(stage)
        items = [Settlement(job.id, job.token, Complete()) for job in held]
        held = list((await settlement.settle_and_claim(stage.bus, stage.queue, items, 100, LEASE_MS))[1].jobs)
        prices.append((await _script_micros(stage) - before) / 100)
    return min(prices)


async def _script_micros(stage: ScenarioFixture) -> int:
    stats = (await stage.bus.at(stage.space.prefix, "INFO", "commandstats")).decode()
    line = next(line for line in stats.split() if line.startswith("cmdstat_evalsha:"))
    return int(line.partition("usec=")[2].partition(",")[0])


async def bounded_calls(stage: ScenarioFixture) -> None:
    """Promotion and recovery move a bounded number per call, however much is due."""
    await stage.put(*(stage.job(run_at_ms=1) for _ in range(700)))
    equal((await promotion.promote(stage.bus, stage.queue, 300)).jobs, 300, "promotions of one call")
    equal(await stage.raw("ZCARD", "schedule"), 400, "the schedule")
    made = list(await stage.scores("pending"))
    await stage.take(250)
    await stage.lapse(*made[:250])
    equal(len((await recovery.recover(stage.bus, stage.queue, limit=100)).waiting), 100, "recoveries of one call")
    equal(await stage.raw("ZCARD", "active"), 150, "the jobs in flight")
