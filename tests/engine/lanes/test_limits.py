"""Limits hold inside the claim, whoever claims."""

from __future__ import annotations

import asyncio
import math
import time

import pytest

from codemojex.engine.errors import AtCeiling, InvalidValue
from codemojex.engine.jobs import claims, jobs
from codemojex.engine.jobs.outcome import GiveBack, Retry
from codemojex.engine.lanes import lanes, limits
from codemojex.engine.maintenance import promotion
from codemojex.engine.scripts import Library
from tests.engine.bench import LEASE, Bench, lane

PROBES = Library("tests.engine")
HOUR = 3_600_000


# the queue's rate


async def test_a_window_hands_out_its_number_and_says_when_to_come_back(bench: Bench) -> None:
    await limits.set_rate(bench.bus, bench.queue, 3, HOUR)
    await bench.fill([lane(i) for i in range(5)])
    answer = await bench.claim(10)
    assert len(answer.jobs) == 3
    assert HOUR - 5000 < answer.limited_ms <= HOUR
    assert await bench.raw("GET", "limiter") == b"3"
    again = await bench.claim(10)
    assert (again.jobs, again.limited_ms > 0) == ([], True)
    assert HOUR - 5000 < await limits.get_rate_limit_ttl(bench.bus, bench.queue) <= HOUR
    assert await bench.raw("GET", "limiter") == b"3"
    await bench.sound()


async def test_a_unit_is_spent_per_job_and_an_empty_claim_is_free(bench: Bench) -> None:
    await limits.set_rate(bench.bus, bench.queue, 5, HOUR)
    assert (await bench.claim(5)).limited_ms == 0
    assert await bench.raw("EXISTS", "limiter") == 0
    await bench.fill([None, lane(1)])
    await bench.claim(5)
    assert await bench.raw("GET", "limiter") == b"2"
    assert await limits.get_rate_limit_ttl(bench.bus, bench.queue) == 0


async def test_the_budget_comes_back_when_the_window_ends(bench: Bench) -> None:
    await limits.set_rate(bench.bus, bench.queue, 2, HOUR)
    await bench.fill([None] * 4)
    await bench.take(2)
    await bench.raw("PEXPIRE", "limiter", 1)
    deadline = time.monotonic() + 5
    while await bench.raw("EXISTS", "limiter"):
        assert time.monotonic() < deadline
    await bench.take(2)
    assert await bench.raw("PTTL", "limiter") > HOUR - 5000


async def test_narrow_claims_spend_the_budget_too(bench: Bench) -> None:
    await limits.set_rate(bench.bus, bench.queue, 2, HOUR)
    await bench.fill([None, None, lane(1), lane(1)])
    assert len(await claims.claim_batch(bench.bus, bench.queue, 1, LEASE)) == 1
    assert len(await lanes.claim_batch(bench.bus, bench.queue, LEASE)) == 1
    assert await claims.claim(bench.bus, bench.queue, LEASE) is None


async def test_four_claimers_never_exceed_a_window_together(bench: Bench) -> None:
    await limits.set_rate(bench.bus, bench.queue, 25, HOUR)
    await bench.fill([lane(i % 8) for i in range(100)])

    async def claimer() -> int:
        total = 0
        for _ in range(15):
            total += len((await bench.claim(3)).jobs)
        return total

    assert sum(await asyncio.gather(*(claimer() for _ in range(4)))) == 25
    await bench.sound()


async def test_four_claimers_never_exceed_any_window_of_many(bench: Bench) -> None:
    await limits.set_rate(bench.bus, bench.queue, 10, 40)
    await bench.fill([lane(i % 8) for i in range(80)])
    handed: list[tuple[int, int]] = []

    async def claimer() -> None:
        while len(handed) < 80 and time.monotonic() < deadline:
            answer = await bench.claim(4)
            handed.extend((job.lease_until_ms, 1) for job in answer.jobs)
            await asyncio.sleep(answer.limited_ms / 1000)

    deadline = time.monotonic() + 10
    await asyncio.gather(*(claimer() for _ in range(4)))
    assert len(handed) == 80
    instants = sorted(at for at, _ in handed)
    # A fixed window bounds each of its windows, so any stretch as long as one touches at most two of them.
    assert all(sum(start <= at < start + 40 for at in instants) <= 20 for start in instants)
    assert instants[-1] - instants[0] >= 7 * 40 - 8


async def test_a_counter_without_a_life_time_does_not_stop_the_queue_for_ever(bench: Bench) -> None:
    await limits.set_rate(bench.bus, bench.queue, 2, HOUR)
    for spent in (2, 7):
        await bench.raw("SET", "limiter", spent)
        await bench.fill([None] * 2)
        await bench.take(2)
        assert (await bench.raw("GET", "limiter"), await bench.raw("PTTL", "limiter") > 0) == (b"2", True)


async def test_a_bucket_never_exceeds_its_burst_and_its_rate(bench: Bench) -> None:
    await limits.set_bucket(bench.bus, bench.queue, 100, 5)
    await bench.fill([lane(i % 3) for i in range(40)])
    taken: list[int] = []
    deadline = time.monotonic() + 10
    while len(taken) < 40 and time.monotonic() < deadline:
        answer = await bench.claim(10)
        taken += [job.lease_until_ms for job in answer.jobs]
        if len(taken) < 40:
            assert 0 < answer.limited_ms <= 20
        await asyncio.sleep(answer.limited_ms / 1000)
    assert len(taken) == 40
    for start in range(len(taken)):
        for end in range(start, len(taken)):
            assert end - start + 1 <= 5 + 0.1 * (taken[end] - taken[start]) + 1e-6
    await bench.sound()


@pytest.mark.parametrize(("rate", "burst"), [(1, 1), (10, 1), (10, 3), (0.5, 2), (3000, 4)])
async def test_a_bucket_says_to_the_millisecond_how_much_it_holds_and_when_it_holds_more(
    bench: Bench, rate: float, burst: int
) -> None:
    now = 1_800_000_000_000
    for ahead in (None, -5000, 0, 1, 99, 100, 101, 250, 1000, 1001, 4000):
        start = max(0 if ahead is None else now + ahead, now)
        units = math.floor(burst - (start - now) * rate / 1000)
        wait = max(1, math.ceil(start - now - (burst - 1) * 1000 / rate))
        args = ("" if ahead is None else now + ahead, now, rate, burst)
        answer = await bench.bus.run(PROBES.script("gcra_probe"), [], args)
        assert [float(number) for number in answer] == [units, start, wait], args


async def test_a_bucket_s_key_lives_no_longer_than_its_debt(bench: Bench) -> None:
    await limits.set_bucket(bench.bus, bench.queue, 0.1, 10)
    await bench.fill([None] * 3)
    await bench.take(3)
    assert 20_000 < await bench.raw("PTTL", "limiter") <= 30_000
    await bench.fill([None] * 20)
    await bench.take(7)
    assert 5_000 < await limits.get_rate_limit_ttl(bench.bus, bench.queue) <= 10_000


async def test_the_same_setting_again_keeps_what_is_spent_and_another_kind_starts_anew(bench: Bench) -> None:
    await limits.set_rate(bench.bus, bench.queue, 2, HOUR)
    await bench.fill([None] * 5)
    await bench.take(2)
    await limits.set_rate(bench.bus, bench.queue, 2, HOUR)
    assert not (await bench.claim()).jobs
    await limits.set_bucket(bench.bus, bench.queue, 1, 1)
    await bench.take()
    await limits.set_rate(bench.bus, bench.queue, 1, HOUR)
    await bench.take()
    await limits.clear_rate(bench.bus, bench.queue)
    await bench.take()
    assert await bench.raw("EXISTS", "meta") == 0


async def test_a_caller_may_ask_about_a_rate_of_its_own(bench: Bench) -> None:
    await bench.raw("SET", "limiter", 3, "PX", 5000)
    assert await limits.get_rate_limit_ttl(bench.bus, bench.queue) == 0
    assert await limits.get_rate_limit_ttl(bench.bus, bench.queue, 4) == 0
    assert 0 < await limits.get_rate_limit_ttl(bench.bus, bench.queue, 3) <= 5000


# concurrency


async def test_a_limit_of_nothing_that_a_peer_wrote_is_no_limit(bench: Bench) -> None:
    await bench.raw("HSET", "meta", "max", 0, "concurrency", 0)
    await bench.fill([None, None])
    assert (await bench.claim(3)).limited_ms == 0
    assert await limits.get_rate_limit_ttl(bench.bus, bench.queue) == 0
    assert await bench.raw("EXISTS", "limiter") == 0


@pytest.mark.parametrize(
    ("meta", "out"),
    [
        ({"limiter": "window", "max": 1, "duration": HOUR, "rate": 5, "burst": 9}, 1),
        ({"max": 1}, 1),
        ({"limiter": "bucket", "max": 1, "duration": HOUR}, 1),
        ({"limiter": "bucket", "rate": 0.001, "burst": 2, "max": 1, "duration": HOUR}, 2),
        ({"limiter": "bucket", "rate": 0.001}, 4),
        ({"limiter": "bucket", "burst": 1}, 4),
        ({"rate": 0.001, "burst": 1}, 4),
    ],
)
async def test_a_bucket_counts_when_it_is_chosen_and_whole_and_a_window_else(
    bench: Bench, meta: dict[str, object], out: int
) -> None:
    await bench.raw("HSET", "meta", *(part for pair in meta.items() for part in pair))
    await bench.fill([None] * 4)
    assert len((await bench.claim(5)).jobs) == out
    kind = (await bench.run("gauges"))[4]
    assert kind == {1: b"window", 2: b"bucket", 4: b""}[out]


async def test_a_concurrency_of_one_lets_one_job_out(bench: Bench) -> None:
    await limits.set_concurrency(bench.bus, bench.queue, 1)
    await bench.fill([None, lane(1)])
    (job,) = (await bench.claim(3)).jobs
    assert (await bench.claim(3)).jobs == []
    await bench.settle(job)
    await bench.take()


async def test_the_queue_s_concurrency_bounds_all_claimers(bench: Bench) -> None:
    await limits.set_concurrency(bench.bus, bench.queue, 3)
    await bench.fill([lane(i) for i in range(4)] + [None] * 4)
    taken = [job for _ in range(4) for job in (await bench.claim(2)).jobs]
    assert len(taken) == 3
    await bench.settle(taken[0])
    assert len((await bench.claim(9)).jobs) == 1
    await limits.set_concurrency(bench.bus, bench.queue, None)
    assert len((await bench.claim(9)).jobs) == 4
    await bench.sound()


async def test_the_gate_refuses_at_the_ceiling_and_opens_below(bench: Bench) -> None:
    await limits.require_seat(bench.bus, bench.queue)
    await limits.set_concurrency(bench.bus, bench.queue, 1)
    await limits.require_seat(bench.bus, bench.queue)
    await bench.fill([None])
    (job,) = await bench.take()
    with pytest.raises(AtCeiling, match="ceiling is 1"):
        await limits.require_seat(bench.bus, bench.queue)
    assert await bench.raw("ZCARD", "active") == 1
    await bench.settle(job)
    await limits.require_seat(bench.bus, bench.queue)


# a lane's ceiling


async def test_a_lane_at_its_ceiling_leaves_the_ring_until_a_seat_is_free(bench: Bench) -> None:
    await lanes.limit(bench.bus, bench.queue, lane(1), 1)
    await bench.fill([lane(1), lane(1)])
    (job,) = await bench.take()
    assert await bench.ring() == []
    assert not (await bench.claim()).jobs
    await bench.bus.execute("DEL", bench.space.key("wake"))
    await bench.settle(job)
    assert (await bench.ring(), await bench.wakes()) == ([lane(1)], 1)
    await bench.take()
    await bench.sound()


async def test_changing_a_limit_moves_the_lane_in_and_out_of_the_ring(bench: Bench) -> None:
    await bench.fill([lane(1)] * 5)
    await bench.take(2)
    await lanes.limit(bench.bus, bench.queue, lane(1), 2)
    assert await bench.ring() == []
    await lanes.limit(bench.bus, bench.queue, lane(1), 3)
    assert await bench.ring() == [lane(1)]
    await lanes.limit(bench.bus, bench.queue, lane(1), 1)
    await lanes.limit(bench.bus, bench.queue, lane(1), None)
    assert await bench.ring() == [lane(1)]
    assert await bench.raw("EXISTS", "glimit") == 0
    await bench.sound()


async def test_a_lowered_limit_counts_what_is_in_flight_already(bench: Bench) -> None:
    await bench.fill([lane(1)] * 5)
    held = await bench.take(3)
    await lanes.limit(bench.bus, bench.queue, lane(1), 2)
    await bench.settle(held[0])
    assert await bench.ring() == []
    await bench.sound()
    await bench.settle(held[1])
    assert await bench.ring() == [lane(1)]
    await bench.sound()


async def test_the_default_ceiling_is_written_down_while_a_lane_is_busy_and_forgotten_after(bench: Bench) -> None:
    await limits.set_default_lane_limit(bench.bus, bench.queue, 2)
    await bench.fill([lane(1)] * 3 + [lane(2)])
    assert await bench.raw("HGETALL", "glimit") == {lane(1).encode(): b"2", lane(2).encode(): b"2"}
    taken = (await bench.claim(9)).jobs
    assert [job.lane for job in taken] == [lane(1), lane(2), lane(1)]
    for job in taken:
        await bench.settle(job)
    assert await bench.raw("HGETALL", "glimit") == {lane(1).encode(): b"2"}
    (last,) = await bench.take()
    await bench.settle(last)
    assert set(await bench.keys()) <= {"meta", "metrics:completed"}
    await bench.sound()


async def test_a_lane_s_own_limit_stands_before_the_default_and_is_not_forgotten(bench: Bench) -> None:
    await limits.set_default_lane_limit(bench.bus, bench.queue, 1)
    await lanes.limit(bench.bus, bench.queue, lane(1), 3)
    await bench.fill([lane(1)] * 4)
    for job in await bench.take(3):
        await bench.settle(job)
    assert await bench.raw("HGETALL", "glimit") == {lane(1).encode(): b"3"}
    (last,) = await bench.take()
    await bench.settle(last)
    assert await bench.raw("HGETALL", "glimit") == {lane(1).encode(): b"3"}
    await bench.sound()


async def test_a_busy_lane_takes_a_new_default_only_after_it_was_empty(bench: Bench) -> None:
    await bench.fill([lane(1)] * 3)
    await limits.set_default_lane_limit(bench.bus, bench.queue, 1)
    await bench.fill([lane(1)])
    assert await bench.raw("EXISTS", "glimit") == 0
    assert len((await bench.claim(9)).jobs) == 4
    await bench.fill([lane(1)])
    assert await bench.raw("HGETALL", "glimit") == {lane(1).encode(): b"1"}
    await bench.sound()


async def test_a_default_ceiling_of_one_makes_each_lane_a_queue_of_its_own(bench: Bench) -> None:
    await limits.set_default_lane_limit(bench.bus, bench.queue, 1)
    made = await bench.fill([lane(1)] * 3)
    for job_id in made:
        answer = await bench.claim(5)
        assert [job.id for job in answer.jobs] == [job_id]
        await bench.settle(answer.jobs[0])
    await bench.sound()


@pytest.mark.parametrize("back", [GiveBack(), Retry("no", 0)], ids=["give back", "retry"])
async def test_a_job_that_comes_back_finds_its_lane_s_ceiling_again(bench: Bench, back: GiveBack | Retry) -> None:
    await limits.set_default_lane_limit(bench.bus, bench.queue, 1)
    await bench.fill([lane(1)])
    (job,) = await bench.take()
    await bench.settle(job, back)
    await bench.fill([lane(1)])
    assert len((await bench.claim(5)).jobs) == 1
    await bench.sound()


# a lane's pace


async def test_a_lane_over_its_pace_rests_and_the_others_go_on(bench: Bench) -> None:
    await limits.set_lane_rate(bench.bus, bench.queue, 0.1, 2)
    await bench.fill([lane(1)] * 5 + [lane(2)])
    answer = await bench.claim(9)
    assert sorted(job.lane or "" for job in answer.jobs) == sorted([lane(1), lane(1), lane(2)])
    assert answer.next_due_ms is not None
    assert 5_000 < answer.next_due_ms <= 10_000
    assert await bench.ring() == []
    await bench.sound()
    await bench.raw("ZADD", "resting", "XX", 1, lane(1))
    await bench.bus.execute("DEL", bench.space.key(f"pace:{lane(1)}"))
    assert len((await bench.claim(9)).jobs) == 2
    await bench.sound()


async def test_a_lane_that_empties_keeps_its_pace(bench: Bench) -> None:
    await limits.set_lane_rate(bench.bus, bench.queue, 0.1)
    await bench.fill([lane(1)])
    await bench.take()
    assert await bench.raw("EXISTS", "resting") == 0
    await bench.fill([lane(1)])
    answer = await bench.claim()
    assert answer.jobs == []
    assert answer.next_due_ms is not None
    assert 5_000 < answer.next_due_ms <= 10_000
    await bench.sound()


async def test_a_lane_s_own_pace_stands_before_the_default(bench: Bench) -> None:
    await limits.set_lane_rate(bench.bus, bench.queue, 0.1)
    await limits.set_lane_rate(bench.bus, bench.queue, 0.1, 3, lane=lane(1))
    await bench.fill([lane(1)] * 5 + [lane(2)] * 5)
    assert [job.lane for job in (await bench.claim(9)).jobs] == [lane(1), lane(2), lane(1), lane(1)]
    await limits.set_lane_rate(bench.bus, bench.queue, None)
    await limits.set_lane_rate(bench.bus, bench.queue, None, lane=lane(1))
    assert len((await bench.claim(9)).jobs) == 6
    await bench.sound()


async def test_a_weighted_turn_stops_at_the_lane_s_pace(bench: Bench) -> None:
    await lanes.weight(bench.bus, bench.queue, lane(1), 4)
    await limits.set_lane_rate(bench.bus, bench.queue, 0.1, 2)
    await bench.fill([lane(1)] * 5)
    assert len((await bench.claim(9)).jobs) == 2
    await bench.sound()


async def test_a_lane_never_exceeds_its_pace(bench: Bench) -> None:
    await limits.set_lane_rate(bench.bus, bench.queue, 50, 2)
    await bench.fill([lane(1)] * 12 + [lane(2)] * 12)
    taken: list[jobs.Job] = []
    deadline = time.monotonic() + 10
    while len(taken) < 24 and time.monotonic() < deadline:
        answer = await bench.claim(10)
        taken += answer.jobs
        await asyncio.sleep(min(answer.next_due_ms or 1, 40) / 1000)
    assert len(taken) == 24
    for name in (lane(1), lane(2)):
        at = [job.lease_until_ms for job in taken if job.lane == name]
        for start in range(len(at)):
            for end in range(start, len(at)):
                assert end - start + 1 <= 2 + 0.05 * (at[end] - at[start]) + 1e-6
    await bench.sound()


async def test_a_resting_lane_wakes_a_worker_when_promotion_brings_it_back(bench: Bench) -> None:
    await bench.fill([lane(1)])
    await lanes.park(bench.bus, bench.queue, lane(1), HOUR)
    await bench.bus.execute("DEL", bench.space.key("wake"))
    promoted = await promotion.promote(bench.bus, bench.queue)
    assert promoted.jobs == 0
    assert promoted.next_due_ms is not None
    await bench.rested(lane(1))
    await promotion.promote(bench.bus, bench.queue)
    assert (await bench.ring(), await bench.wakes()) == ([lane(1)], 1)
    await bench.sound()


async def test_a_released_seat_does_not_end_a_rest(bench: Bench) -> None:
    await lanes.limit(bench.bus, bench.queue, lane(1), 1)
    await bench.fill([lane(1)] * 2)
    (job,) = await bench.take()
    await lanes.park(bench.bus, bench.queue, lane(1), HOUR)
    await bench.settle(job)
    assert await bench.ring() == []
    await bench.sound()


@pytest.mark.parametrize(
    "call",
    [
        lambda b: limits.set_rate(b.bus, b.queue, 0, 1),
        lambda b: limits.set_rate(b.bus, b.queue, 1, 0),
        lambda b: limits.set_bucket(b.bus, b.queue, 0, 1),
        lambda b: limits.set_bucket(b.bus, b.queue, 1, 0),
        lambda b: limits.set_lane_rate(b.bus, b.queue, float("nan")),
        lambda b: limits.set_concurrency(b.bus, b.queue, 0),
        lambda b: limits.set_default_lane_limit(b.bus, b.queue, 0),
        lambda b: lanes.limit(b.bus, b.queue, lane(1), 0),
        lambda b: lanes.weight(b.bus, b.queue, lane(1), 0),
        lambda b: lanes.park(b.bus, b.queue, lane(1), -1),
    ],
)
async def test_a_limit_out_of_range_is_refused(bench: Bench, call: object) -> None:
    with pytest.raises(InvalidValue):
        await call(bench)  # type: ignore[operator]
    assert await bench.keys() == {}
