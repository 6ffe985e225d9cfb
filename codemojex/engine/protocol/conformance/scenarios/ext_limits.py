"""Our own scenarios, limits that the claim itself keeps: section 7.3."""

from __future__ import annotations

from collections import Counter

from codemojex.engine.inspection import admin
from codemojex.engine.jobs import claims
from codemojex.engine.jobs.claims import Claimed
from codemojex.engine.jobs.outcome import Park
from codemojex.engine.lanes import lanes, limits
from codemojex.engine.protocol.conformance.fixture import LEASE_MS, ScenarioFixture, equal, that


async def _claim(stage: ScenarioFixture, n: int) -> Claimed:
    return await claims.claim_many(stage.bus, stage.queue, n, LEASE_MS)


async def rate_window(stage: ScenarioFixture) -> None:
    """A window's budget is spent in the claim, a unit per job; an empty claim is free; over it the claim says when."""
    await limits.set_rate(stage.bus, stage.queue, 5, 60_000)
    equal(await stage.hash("meta"), {"limiter": "window", "max": "5", "duration": "60000"}, "the setting")
    await _claim(stage, 10)
    equal(await stage.kind("limiter"), "none", "the counter after an empty claim")
    await stage.fill(*[None] * 8)
    equal(len((await _claim(stage, 3)).jobs), 3, "jobs within the budget")
    equal(await stage.text("limiter"), "3", "the counter, a plain number")
    claimed = await _claim(stage, 10)
    equal(len(claimed.jobs), 2, "jobs of the rest of the budget")
    ttl = await stage.raw("PTTL", "limiter")
    that(0 < claimed.limited_ms <= 60_000 and abs(claimed.limited_ms - ttl) < 2_000, "the claim says when to return")
    left = await limits.get_rate_limit_ttl(stage.bus, stage.queue)
    that(0 < left <= 60_000, f"the budget can be asked for: {left} ms")
    equal(await stage.text("limiter"), "5", "asking spends nothing")
    await stage.raw("DEL", "limiter")
    equal(len((await _claim(stage, 10)).jobs), 3, "jobs of the next window")


async def rate_bucket(stage: ScenarioFixture) -> None:
    """A token bucket never hands out more than burst + rate·T in any interval T."""
    await limits.set_bucket(stage.bus, stage.queue, 20, 5)
    await stage.fill(*[None] * 60)
    start = await stage.now_ms()
    served: list[int] = []
    while len(served) < 12:
        claimed = await _claim(stage, 10)
        now = await stage.now_ms()
        served += [now] * len(claimed.jobs)
        if not claimed.jobs:
            that(claimed.limited_ms > 0, "an empty claim says when to return")
            end = now + claimed.limited_ms
            await stage.until(lambda end=end: _reached(stage, end), "the bucket fills")
    for i, since in enumerate([start, *served]):
        for j in range(i, len(served)):
            allowed = 5 + 20 * (served[j] - since + 20) / 1000  # 20 ms: between a claim and the reading of the clock
            that(j - i + (i == 0) <= allowed + 1, f"{j - i + 1} jobs within {served[j] - since} ms")


async def _reached(stage: ScenarioFixture, instant_ms: int) -> bool:
    return await stage.now_ms() >= instant_ms


async def lane_rate(stage: ScenarioFixture) -> None:
    """A lane over its pace leaves the ring until its time and returns by itself; others go on; own settings win."""
    slow, fast = stage.lane(1), stage.lane(2)
    await limits.set_lane_rate(stage.bus, stage.queue, 0.01, 1)
    await limits.set_lane_rate(stage.bus, stage.queue, 1_000, 50, lane=fast)
    await stage.fill(slow, slow, fast, fast, fast)
    equal(Counter(job.lane for job in (await _claim(stage, 10)).jobs), {slow: 1, fast: 3}, "the jobs of a claim")
    equal(await stage.items("ring"), [], "the ring: the slow lane rests")
    rest = (await stage.scores("resting"))[slow]
    that(rest > await stage.now_ms() + 50_000, "it rests until its time")
    await stage.raw("ZADD", "resting", "XX", 1, slow)
    await stage.raw("DEL", f"pace:{slow}")
    equal([job.lane for job in (await _claim(stage, 10)).jobs], [slow], "the slow lane at its time")
    await stage.sound()


async def park(stage: ScenarioFixture) -> None:
    """A parked lane rests until its deadline with its job in place and nothing charged; the others go on."""
    a, b = stage.lane(1), stage.lane(2)
    made = await stage.fill(a, b, b)
    first, second = await stage.take(2)
    await stage.settle(first, Park(60_000))
    equal(await stage.scores(f"g:{a}:pending"), {made[0]: 0.0}, "the parked lane's backlog")
    equal((await stage.row(made[0])).get("failures"), None, "failures charged")
    rest = await stage.scores("resting")
    await lanes.park(stage.bus, stage.queue, a, 1)
    equal(await stage.scores("resting"), rest, "a shorter rest while a longer one runs")
    equal(await stage.items("ring"), [b], "the ring")
    equal([job.lane for job in (await _claim(stage, 5)).jobs], [b], "the jobs of a claim")
    await lanes.park(stage.bus, stage.queue, a, 0)
    equal([job.id for job in (await _claim(stage, 5)).jobs], [made[0]], "the job when the rest is ended")
    await stage.settle(second)
    await stage.sound()


async def concurrency(stage: ScenarioFixture) -> None:
    """The ceiling of all lanes together is kept inside the claim."""
    await limits.set_concurrency(stage.bus, stage.queue, 3)
    await stage.fill(None, *(stage.lane(i) for i in range(5)))
    claimed = await _claim(stage, 10)
    equal(len(claimed.jobs), 3, "jobs of the first claim")
    equal(len((await _claim(stage, 10)).jobs), 0, "jobs of the second claim")
    await stage.settle(claimed.jobs[0])
    equal(len((await _claim(stage, 10)).jobs), 1, "jobs after one completion")
    await stage.sound()


async def default_ceiling(stage: ScenarioFixture) -> None:
    """A default ceiling is written for a peer while a lane is busy and forgotten when it is idle; own ones stay."""
    a, own = stage.lane(1), stage.lane(2)
    await limits.set_default_lane_limit(stage.bus, stage.queue, 2)
    await lanes.limit(stage.bus, stage.queue, own, 1)
    await stage.fill(*[a] * 3, *[own] * 3)
    equal(await stage.hash("glimit"), {a: "2", own: "1"}, "the ceilings while busy")
    for expected in ({a: 2, own: 1}, {a: 1, own: 1}, {own: 1}):
        claimed = await _claim(stage, 10)
        equal(Counter(job.lane for job in claimed.jobs), expected, "the jobs of a claim")
        for job in claimed.jobs:
            await stage.settle(job)
    equal(await stage.hash("glimit"), {own: "1"}, "the ceilings when idle")
    equal(await stage.kind("gdefault"), "none", "the note of defaults")
    await stage.sound()


async def pause_in_claim(stage: ScenarioFixture) -> None:
    """A pause holds inside the claim script, whatever a client believed before; resuming wakes a parked worker."""
    await stage.fill(None)
    await admin.pause(stage.bus, stage.queue)
    await stage.raw("DEL", "wake")
    equal(len((await _claim(stage, 5)).jobs), 0, "jobs of a paused queue")
    await admin.resume(stage.bus, stage.queue)
    equal(await stage.items("wake"), ["1"], "the wake tokens after resume")


async def explain(stage: ScenarioFixture) -> None:
    """Every reason why a lane is not served is named: empty, paused, full, resting, queue paused, over budget."""
    lane, idle = stage.lane(1), stage.lane(2)
    await stage.fill(lane, lane)

    async def reasons(name: str) -> str:
        return " | ".join((await lanes.explain(stage.bus, stage.queue, name)).reasons)

    equal(await reasons(lane), "", "the reasons of a lane that is served")
    that("empty" in await reasons(idle), "an empty lane says so")
    await lanes.pause(stage.bus, stage.queue, lane)
    that("paused" in await reasons(lane), "a paused lane says so")
    await lanes.resume(stage.bus, stage.queue, lane)
    await lanes.park(stage.bus, stage.queue, lane, 60_000)
    that("resting" in await reasons(lane), "a resting lane says so")
    await lanes.park(stage.bus, stage.queue, lane, 0)
    await lanes.limit(stage.bus, stage.queue, lane, 1)
    await stage.take()
    that("ceiling" in await reasons(lane), "a full lane says so")
    await limits.set_rate(stage.bus, stage.queue, 1, 60_000)
    await stage.raw("SET", "limiter", 1, "PX", 60_000)
    await limits.set_concurrency(stage.bus, stage.queue, 1)
    await admin.pause(stage.bus, stage.queue)
    text = await reasons(lane)
    for reason in ("queue paused", "over budget", "concurrency", "ceiling"):
        that(reason in text, f"{reason!r} stands among the reasons: {text}")
