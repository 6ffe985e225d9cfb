"""A snapshot says what an operator asks: what waits where, whose lease lapses, what the limiter has left."""

from __future__ import annotations

from dataclasses import replace

import pytest

from codemojex.engine.errors import InvalidValue
from codemojex.engine.inspection import metrics
from codemojex.engine.inspection.metrics import Leases, Limiter, Throughput, throughput
from codemojex.engine.jobs.outcome import Discard
from codemojex.engine.lanes import lanes, limits
from tests.engine.bench import LEASE, Bench, lane


async def test_an_empty_queue_has_a_snapshot_and_looking_writes_nothing(bench: Bench) -> None:
    found = await metrics.snapshot(bench.bus, bench.queue)
    assert (found.counts.pending, found.leases, found.limiter) == (0, Leases(0, None, None), Limiter("none"))
    assert (found.concurrency, found.next_due_ms, found.top_lanes) == (None, None, ())
    assert await bench.keys() == {}


async def test_the_deepest_lanes_come_first_with_the_age_of_their_oldest_job(bench: Bench) -> None:
    for number, depth in ((1, 2), (2, 5), (3, 1), (4, 3)):
        await bench.fill([lane(number)] * depth)
    await lanes.pause(bench.bus, bench.queue, lane(2))
    found = await metrics.snapshot(bench.bus, bench.queue, top=3)
    assert [(x.lane, x.depth) for x in found.top_lanes] == [(lane(2), 5), (lane(4), 3), (lane(1), 2)]
    assert all(0 <= x.oldest_age_ms < 60_000 for x in found.top_lanes)
    assert found.counts.pending == 11


async def test_the_oldest_age_is_that_of_the_oldest_waiting_job_of_all_kinds(bench: Bench) -> None:
    await bench.fill([None, lane(1), lane(2)])
    found = await metrics.snapshot(bench.bus, bench.queue)
    assert found.counts.oldest_age_ms is not None
    assert found.counts.oldest_age_ms >= max(x.oldest_age_ms for x in found.top_lanes)


async def test_leases_are_told_by_when_they_lapse(bench: Bench) -> None:
    await bench.fill([None] * 3)
    late, *_ = await bench.take(3)
    await bench.lapse(late)
    found = (await metrics.snapshot(bench.bus, bench.queue)).leases
    assert found.lapsed == 1
    assert found.first_lapse_ms is not None
    assert found.last_lapse_ms is not None
    assert found.first_lapse_ms < -1_000_000
    assert LEASE - 10_000 < found.last_lapse_ms <= LEASE


async def test_the_limiter_shows_what_is_left_and_looking_spends_nothing(bench: Bench) -> None:
    await limits.set_rate(bench.bus, bench.queue, 5, 60_000)
    await limits.set_concurrency(bench.bus, bench.queue, 7)
    await bench.fill([None] * 9)
    await bench.take(3)
    for _ in range(2):
        found = await metrics.snapshot(bench.bus, bench.queue)
        assert found.limiter == Limiter("window", 5, duration_ms=60_000, left=2)
        assert found.concurrency == 7
    assert len((await bench.claim(9)).jobs) == 2
    spent = (await metrics.snapshot(bench.bus, bench.queue)).limiter
    assert spent.left == 0
    assert 0 < spent.limited_ms <= 60_000
    await limits.set_bucket(bench.bus, bench.queue, 0.5, 4)
    assert (await metrics.snapshot(bench.bus, bench.queue)).limiter == Limiter("bucket", 4, rate_per_s=0.5, left=4)


async def test_the_next_due_job_is_told(bench: Bench) -> None:
    await bench.put(bench.job(delay_ms=50_000))
    found = await metrics.snapshot(bench.bus, bench.queue)
    assert found.next_due_ms is not None
    assert 40_000 < found.next_due_ms <= 50_000


async def test_throughput_is_what_two_snapshots_differ_in(bench: Bench) -> None:
    before = await metrics.snapshot(bench.bus, bench.queue)
    await bench.fill([None] * 4)
    jobs = await bench.take(4)
    for job in jobs[:3]:
        await bench.settle(job)
    await bench.settle(jobs[3], Discard("no"))
    after = replace(await metrics.snapshot(bench.bus, bench.queue), at_ms=before.at_ms + 2_000)
    assert throughput(before, after) == Throughput(2.0, 1.5, 0.5)
    reset = replace(before, at_ms=after.at_ms + 1_000)
    assert throughput(after, reset) == Throughput(1.0, 0.0, 0.0)
    with pytest.raises(InvalidValue, match="earlier one first"):
        throughput(after, before)


@pytest.mark.parametrize("top", [-1, 1001])
async def test_a_top_that_is_out_of_range_is_refused(bench: Bench, top: int) -> None:
    with pytest.raises(InvalidValue):
        await metrics.snapshot(bench.bus, bench.queue, top=top)
