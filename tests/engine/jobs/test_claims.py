"""Claims: who is served, in which order, and how much at once."""

from __future__ import annotations

from collections import Counter

import pytest

from codemojex.engine.errors import InvalidValue
from codemojex.engine.inspection import admin
from codemojex.engine.jobs import claims, jobs, settlement
from codemojex.engine.jobs.outcome import Complete, Retry
from codemojex.engine.jobs.settlement import Settlement
from codemojex.engine.lanes import lanes, limits
from tests.engine.bench import LEASE, Bench, lane


async def test_a_claim_leases_the_job_under_its_first_token(bench: Bench) -> None:
    (job_id,) = await bench.fill([lane(1)], b"pay \xff")
    (job,) = await bench.take()
    assert (job.id, job.payload, job.token, job.lane) == (job_id, b"pay \xff", "1", lane(1))
    assert (job.failures, job.stalled, job.queue, job.timeout_ms) == (0, 0, bench.queue, None)
    assert await bench.raw("ZSCORE", "active", job_id) == job.lease_until_ms
    assert (await bench.raw("HMGET", f"job:{job_id}", "state", "attempts")) == [b"active", b"1"]
    assert await bench.raw("HGET", "gactive", lane(1)) == b"1"
    seconds, micros = await bench.bus.execute("TIME")
    assert 0 <= int(seconds) * 1000 + int(micros) // 1000 + LEASE - job.lease_until_ms < 5000
    await bench.sound()


async def test_the_handler_sees_failures_lapses_and_its_time_out(bench: Bench) -> None:
    await bench.put(bench.job(timeout_ms=700))
    (job,) = await bench.take()
    await bench.settle(job, Retry("boom", 0))
    (again,) = await bench.take()
    assert (again.failures, again.stalled, again.timeout_ms, again.token) == (1, 0, 700, "2")


async def test_two_lanes_are_served_in_turn(bench: Bench) -> None:
    a, b = lane(1), lane(2)
    await bench.fill([a, a, b, b])
    taken = [(await lanes.claim(bench.bus, bench.queue, LEASE)) for _ in range(4)]
    assert [job and job.lane for job in taken] == [a, b, a, b]
    assert await lanes.claim(bench.bus, bench.queue, LEASE) is None
    assert await bench.ring() == []
    await bench.sound()


async def test_one_claim_of_many_jobs_rotates_one_step_per_job(bench: Bench) -> None:
    flood, calm = lane(1), lane(2)
    await bench.fill([flood] * 50 + [calm] * 3)
    order = [job.lane for job in await bench.take(6)]
    assert order == [flood, calm] * 3
    await bench.sound()


async def test_a_flooding_lane_never_delays_the_others_by_more_than_one_turn_each(bench: Bench) -> None:
    await bench.fill([lane(0)] * 400)
    calm = [lane(i) for i in range(1, 6)]
    await bench.fill(calm)
    assert {job.lane for job in await bench.take(6)} == {lane(0), *calm}
    await bench.fill(calm)
    assert {job.lane for job in await bench.take(6)} == {lane(0), *calm}


async def test_jobs_of_a_lane_come_in_the_order_they_were_minted(bench: Bench) -> None:
    made = [bench.job(lane=lane(1)) for _ in range(5)]
    await bench.put(*reversed(made))
    assert [job.id for job in await bench.take(5)] == [job.id for job in made]


# flat work beside lanes


async def test_flat_work_has_one_turn_per_rotation(bench: Bench) -> None:
    await bench.fill([None] * 10 + [lane(i) for i in range(3)] * 10)
    order = [job.lane for job in await bench.take(16)]
    assert [i for i, name in enumerate(order) if name is None] == [3, 7, 11, 15]


async def test_flat_work_is_not_starved_by_single_claims(bench: Bench) -> None:
    await bench.fill([None] * 3 + [lane(i) for i in range(3)] * 10)
    order = [(await bench.take())[0].lane for _ in range(12)]
    assert [i for i, name in enumerate(order) if name is None] == [3, 7, 11]


async def test_flat_work_alone_is_served_at_once(bench: Bench) -> None:
    made = await bench.fill([None] * 5)
    assert [job.id for job in await bench.take(5)] == made
    await bench.sound()


# weights


async def test_weights_share_the_turns(bench: Bench) -> None:
    heavy, light = lane(1), lane(2)
    await lanes.weight(bench.bus, bench.queue, heavy, 3)
    await bench.fill([heavy] * 60 + [light] * 60)
    shares = Counter(job.lane for job in await bench.take(40))
    assert shares == {heavy: 30, light: 10}


async def test_single_claims_honour_weights_as_well(bench: Bench) -> None:
    heavy, light = lane(1), lane(2)
    await lanes.weight(bench.bus, bench.queue, heavy, 3)
    await bench.fill([heavy] * 20 + [light] * 20)
    order = [(await bench.take())[0].lane for _ in range(8)]
    assert order == [heavy, heavy, heavy, light] * 2
    await bench.sound()


async def test_a_turn_that_was_cut_short_is_finished_once(bench: Bench) -> None:
    heavy, light = lane(1), lane(2)
    await lanes.weight(bench.bus, bench.queue, heavy, 3)
    await bench.fill([heavy] * 10 + [light] * 10)
    await bench.take()
    assert [job.lane for job in await bench.take(6)] == [heavy] * 2 + [light] + [heavy] * 3
    await bench.sound()


@pytest.mark.parametrize("n", [1, 2, 3, 6, 7, 50])
async def test_claims_of_every_size_share_alike_between_weighted_lanes_and_flat_work(bench: Bench, n: int) -> None:
    rotation = [lane(1), *[lane(2)] * 3, lane(3), None]
    await lanes.weight(bench.bus, bench.queue, lane(2), 3)
    await bench.fill(rotation * 110)
    order = [job.lane for _ in range(0, 600, n) for job in await bench.take(n)]
    assert order[:600] == rotation * 100
    await bench.sound()


async def test_a_heavy_lane_alone_with_flat_work_has_its_whole_turn_in_single_claims(bench: Bench) -> None:
    await lanes.weight(bench.bus, bench.queue, lane(1), 3)
    await bench.fill([lane(1), lane(1), lane(1), None] * 3)
    order = [(await bench.take())[0].lane for _ in range(12)]
    assert order == [lane(1), lane(1), lane(1), None] * 3
    await bench.sound()


async def test_a_turn_that_was_cut_short_is_finished_before_flat_work_though_the_ring_is_shorter(bench: Bench) -> None:
    await lanes.weight(bench.bus, bench.queue, lane(2), 3)
    await bench.fill([lane(1), *[lane(2)] * 6, lane(3), None] * 2)
    assert [job.lane for job in await bench.take(2)] == [lane(1), lane(2)]
    await lanes.pause(bench.bus, bench.queue, lane(3))
    assert [(await bench.take())[0].lane for _ in range(4)] == [lane(2), lane(2), None, lane(1)]
    await bench.sound()


async def test_a_weight_that_is_removed_counts_as_one(bench: Bench) -> None:
    await lanes.weight(bench.bus, bench.queue, lane(1), 5)
    await lanes.weight(bench.bus, bench.queue, lane(1), None)
    await bench.fill([lane(1)] * 4 + [lane(2)] * 4)
    assert [job.lane for job in await bench.take(4)] == [lane(1), lane(2)] * 2


async def test_a_heavy_lane_does_not_hide_the_light_ones(bench: Bench) -> None:
    heavy, one, two = lane(1), lane(2), lane(3)
    await lanes.weight(bench.bus, bench.queue, heavy, 5)
    await bench.fill([heavy] * 200 + [one] * 4 + [two] * 4)
    seen: list[str | None] = []
    turns = 0
    while turns < 9:
        turn = await lanes.claim_turn(bench.bus, bench.queue, LEASE)
        seen += {job.lane for job in turn}
        turns += 1
    assert {one, two} <= set(seen)
    left = 208 - await bench.raw("ZCARD", "active")
    drained = 0
    while batch := (await bench.claim(100)).jobs:
        drained += len(batch)
    assert drained == left
    await bench.sound()


# batches


async def test_a_flat_batch_takes_the_oldest_under_one_deadline(bench: Bench) -> None:
    made = await bench.fill([None] * 8)
    batch = await claims.claim_batch(bench.bus, bench.queue, 4, LEASE)
    assert [job.id for job in batch] == made[:4]
    assert {job.token for job in batch} == {"1"}
    assert len({job.lease_until_ms for job in batch}) == 1
    assert len({await bench.raw("ZSCORE", "active", job.id) for job in batch}) == 1


async def test_a_short_batch_is_no_error(bench: Bench) -> None:
    await bench.fill([None] * 2)
    assert len(await claims.claim_batch(bench.bus, bench.queue, 4, LEASE)) == 2
    assert await claims.claim_batch(bench.bus, bench.queue, 4, LEASE) == []
    await bench.fill([None])
    await admin.pause(bench.bus, bench.queue)
    assert await claims.claim_batch(bench.bus, bench.queue, 4, LEASE) == []


async def test_one_retried_member_does_not_touch_the_rest_of_its_batch(bench: Bench) -> None:
    await bench.fill([None] * 3)
    batch = await claims.claim_batch(bench.bus, bench.queue, 3, LEASE)
    items = [Settlement(job.id, job.token, Retry("no", 0) if i == 1 else Complete()) for i, job in enumerate(batch)]
    await settlement.settle_many(bench.bus, bench.queue, items)
    (back,) = (await bench.claim(5)).jobs
    assert (back.id, back.token) == (batch[1].id, "2")


async def test_a_lane_batch_comes_from_one_lane(bench: Bench) -> None:
    await bench.fill([lane(1), lane(2)] * 4)
    batch = await lanes.claim_batch(bench.bus, bench.queue, LEASE)
    assert [job.lane for job in batch] == [lane(1)] * 4
    assert len({job.lease_until_ms for job in batch}) == 1
    await bench.sound()


async def test_a_lane_batch_respects_the_lane_s_ceiling(bench: Bench) -> None:
    await lanes.limit(bench.bus, bench.queue, lane(1), 3)
    await bench.fill([lane(1)] * 8)
    batch = await lanes.claim_batch(bench.bus, bench.queue, LEASE)
    assert len(batch) == 3
    assert await lanes.claim_batch(bench.bus, bench.queue, LEASE) == []
    await bench.settle(batch[0])
    assert len(await lanes.claim_batch(bench.bus, bench.queue, LEASE)) == 1
    await bench.sound()


async def test_lane_batches_with_ceilings_reach_light_lanes_and_drain_everything(bench: Bench) -> None:
    await lanes.limit(bench.bus, bench.queue, lane(1), 2)
    await bench.fill([lane(1)] * 20 + [lane(2)] * 2 + [lane(3)] * 2)
    seen: Counter[str | None] = Counter()
    for turn in range(40):
        batch = await lanes.claim_batch(bench.bus, bench.queue, LEASE)
        seen.update(job.lane for job in batch)
        if turn == 8:
            assert {lane(2), lane(3)} <= set(seen)
        for job in batch:
            await bench.settle(job)
    assert seen == {lane(1): 20, lane(2): 2, lane(3): 2}
    await bench.sound()


# bounds


async def test_a_claim_stops_at_its_byte_bound(bench: Bench) -> None:
    await bench.fill([lane(1), lane(2)] * 5, b"x" * 1000)
    assert len((await bench.claim(10, max_bytes=2500)).jobs) == 3
    await bench.sound()


async def test_a_weighted_turn_cut_by_bytes_goes_on_with_the_same_lane(bench: Bench) -> None:
    await lanes.weight(bench.bus, bench.queue, lane(1), 3)
    await bench.fill([lane(1), lane(2)] * 5, b"x" * 1000)
    taken = [job.lane for _ in range(4) for job in (await bench.claim(10, max_bytes=1)).jobs]
    assert taken == [lane(1)] * 3 + [lane(2)]
    await bench.sound()


@pytest.mark.parametrize(("n", "lease_ms", "max_bytes"), [(0, 1, 1), (501, 1, 1), (1, 0, 1), (1, 10**9, 1), (1, 1, 0)])
async def test_a_claim_out_of_range_is_refused(bench: Bench, n: int, lease_ms: int, max_bytes: int) -> None:
    with pytest.raises(InvalidValue):
        await claims.claim_many(bench.bus, bench.queue, n, lease_ms, max_bytes=max_bytes)


async def test_a_full_claim_of_a_deep_queue_works_at_the_largest_size(bench: Bench) -> None:
    await bench.fill([lane(i % 7) for i in range(600)])
    assert len((await bench.claim(claims.MAX_CLAIM)).jobs) == claims.MAX_CLAIM
    await bench.sound()


# what must not come


async def test_an_id_without_a_row_is_dropped(bench: Bench) -> None:
    made = await bench.fill([lane(1), lane(1), None, None])
    await bench.bus.execute("DEL", bench.space.row(made[0]), bench.space.row(made[2]))
    assert {job.id for job in (await bench.claim(5)).jobs} == {made[1], made[3]}
    await bench.sound()


async def test_a_lane_of_ghosts_only_leaves_the_ring(bench: Bench) -> None:
    await limits.set_default_lane_limit(bench.bus, bench.queue, 1)
    made = await bench.fill([lane(1)] * 3)
    for ghost in made:
        await bench.bus.execute("DEL", bench.space.row(ghost))
    assert not (await bench.claim(1)).jobs
    assert await bench.ring() == []
    await bench.sound()


async def test_a_lane_that_stands_in_the_ring_without_work_leaves_it(bench: Bench) -> None:
    await bench.raw("RPUSH", "ring", lane(1))
    assert not (await bench.claim(1)).jobs
    assert await bench.ring() == []


async def test_a_lane_of_ghosts_takes_no_seat_while_others_are_served(bench: Bench) -> None:
    ghost, live = await bench.fill([lane(1), lane(2)])
    await bench.bus.execute("DEL", bench.space.row(ghost))
    assert [job.id for job in await bench.take()] == [live]
    assert await bench.raw("HGETALL", "gactive") == {lane(2).encode(): b"1"}
    await bench.sound()


async def test_one_turn_of_a_lane_of_ghosts_is_bounded(bench: Bench) -> None:
    made = await bench.fill([lane(1)] * 1000)
    await bench.bus.execute("DEL", *(bench.space.row(ghost) for ghost in made))
    answer = await bench.claim(1)
    assert (answer.jobs, answer.next_due_ms) == ([], 1)
    assert await bench.raw("ZCARD", f"g:{lane(1)}:pending") > 700
    assert await bench.ring() == [lane(1)]


async def test_many_ghosts_are_dropped_in_bounded_steps(bench: Bench) -> None:
    made = await bench.fill([None] * 1000)
    await bench.bus.execute("DEL", *(bench.space.row(ghost) for ghost in made[:-1]))
    first = await bench.claim(1)
    assert (first.jobs, first.next_due_ms) == ([], 1)
    for _ in range(10):
        if got := (await bench.claim(1)).jobs:
            break
    assert [job.id for job in got] == made[-1:]


@pytest.mark.parametrize("name", [None, lane(1)], ids=["flat", "lane"])
async def test_a_row_that_cannot_be_read_does_not_stop_the_rota(bench: Bench, name: str | None) -> None:
    made = await bench.fill([name, name, lane(2), lane(3)])
    await bench.bus.execute("SET", bench.space.row(made[0]), "not a hash")
    assert {job.id for job in await bench.take(3)} == set(made[1:])
    await bench.bus.execute("DEL", bench.space.row(made[0]))
    await bench.sound()


async def test_an_expired_job_dies_with_a_reason_instead_of_being_served(bench: Bench) -> None:
    late = bench.job(expires_at_ms=1, lane=lane(1))
    fresh = bench.job(expires_at_ms=4_000_000_000_000, lane=lane(1))
    await bench.put(late, fresh)
    assert [job.id for job in (await bench.claim(5)).jobs] == [fresh.id]
    row = await bench.row(late.id)
    assert (row["state"], row["last_error"]) == ("dead", "expired")
    assert await bench.raw("ZRANGE", "dead", 0, -1) == [late.id.encode()]
    assert await bench.raw("HGET", "metrics:failed", "count") == b"1"
    await bench.sound()


# pause


async def test_a_paused_queue_hands_out_nothing_and_keeps_its_backlog(bench: Bench) -> None:
    made = await bench.fill([None, lane(1)])
    await admin.pause(bench.bus, bench.queue)
    answer = await bench.claim(5)
    assert (answer.jobs, answer.paused) == ([], True)
    assert await claims.claim(bench.bus, bench.queue, LEASE) is None
    await bench.bus.execute("DEL", bench.space.key("wake"))
    await admin.resume(bench.bus, bench.queue)
    assert await bench.wakes() == 1
    assert {job.id for job in await bench.take(2)} == set(made)
    await bench.sound()


# what the worker learns


async def test_a_claim_that_is_not_filled_says_when_the_next_job_is_due(bench: Bench) -> None:
    assert (await bench.claim(5)).next_due_ms is None
    await bench.put(bench.job(delay_ms=600_000), bench.job(delay_ms=50_000))
    due = (await bench.claim(5)).next_due_ms
    assert due is not None
    assert 0 < due <= 50_000
    await lanes.park(bench.bus, bench.queue, lane(1), 20_000)
    due = (await bench.claim(5)).next_due_ms
    assert due is not None
    assert 0 < due <= 20_000


async def test_a_claim_brings_back_what_is_due(bench: Bench) -> None:
    flat, grouped = bench.job(delay_ms=60_000), bench.job(delay_ms=60_000, lane=lane(1))
    await bench.put(flat, grouped)
    assert not (await bench.claim(5)).jobs
    await bench.due(flat.id, grouped.id)
    assert {job.id for job in await bench.take(2)} == {flat.id, grouped.id}
    await bench.sound()


async def test_narrow_claims_see_a_due_job_only_after_promotion(bench: Bench) -> None:
    job = bench.job(delay_ms=60_000)
    await bench.put(job)
    await bench.due(job.id)
    assert await claims.claim(bench.bus, bench.queue, LEASE) is None


async def test_a_filled_claim_wakes_the_next_worker_while_work_is_left(bench: Bench) -> None:
    await bench.fill([lane(1)] * 5)
    await bench.bus.execute("DEL", bench.space.key("wake"))
    await bench.take(2)
    assert await bench.wakes() == 1
    await bench.take(2)
    assert await bench.wakes() == 1


async def test_a_claim_that_empties_the_queue_takes_the_idle_wake_tokens_away(bench: Bench) -> None:
    await bench.fill([None] * 5)
    assert await bench.wakes() == 5
    await bench.claim(10)
    assert await bench.wakes() == 0


async def test_a_repeat_of_the_lane_s_job_waits_its_turn(bench: Bench) -> None:
    await bench.fill([lane(1), lane(2)])
    (one,) = await bench.take()
    await bench.fill([lane(1)])
    assert [job.lane for job in await bench.take(2)] == [lane(2), lane(1)]
    assert one.lane == lane(1)


async def test_a_batch_enqueue_answers_like_single_ones(bench: Bench) -> None:
    one = bench.id()
    verdicts = await jobs.enqueue_many(bench.bus, bench.queue, [(one, b"a"), (bench.id(), b"b"), (one, b"a")])
    assert verdicts == [jobs.Enqueued(), jobs.Enqueued(), jobs.Duplicate(one)]
