"""An operator's verbs on a queue and its jobs, and what the counts say."""

from __future__ import annotations

import pytest

from codemojex.engine import ids
from codemojex.engine.errors import InvalidValue, Locked, WrongState
from codemojex.engine.inspection import admin, metrics
from codemojex.engine.jobs import registry
from codemojex.engine.jobs.jobs import Dedup
from codemojex.engine.jobs.outcome import Discard, Retry
from codemojex.engine.lanes import lanes, limits
from codemojex.engine.maintenance import promotion, recovery
from tests.engine.bench import Bench, lane


async def bury(bench: Bench, name: str | None = None) -> str:
    (job_id,) = await bench.fill([name])
    (job,) = await bench.take()
    await bench.settle(job, Retry("boom"))
    await bench.due(job_id)
    (job,) = await bench.take()
    await bench.settle(job, Discard("boom"))
    return job_id


# states and counts


async def test_the_state_is_where_the_job_stands(bench: Bench) -> None:
    async def state(job_id: str) -> str:
        return await admin.get_job_state(bench.bus, bench.queue, job_id)

    dead = await bury(bench)
    held, grouped, flat = await bench.fill([lane(1), lane(1), None])
    late = bench.job(delay_ms=60_000)
    await bench.put(late)
    await bench.take()
    states = [await state(i) for i in (dead, held, grouped, flat, late.id, bench.id())]
    assert states == ["dead", "active", "pending", "pending", "scheduled", "absent"]
    await bench.raw("ZREM", "pending", flat)
    assert await state(flat) == "unknown"
    parent = bench.id()
    await bench.raw("HSET", f"job:{parent}", "state", "awaiting_children")
    assert await state(parent) == "awaiting_children"


async def test_counts_name_every_set_and_refuse_an_unknown_one(bench: Bench) -> None:
    await bury(bench)
    await bench.fill([None, None, lane(1)])
    await bench.put(bench.job(delay_ms=60_000))
    await bench.settle((await bench.take())[0])
    names = ["pending", "active", "schedule", "dead", "completed", "failed"]
    answer = await metrics.get_counts(bench.bus, bench.queue, names)
    assert answer == {"pending": 2, "active": 0, "schedule": 1, "dead": 1, "completed": 1, "failed": 1}
    with pytest.raises(InvalidValue, match="waiting"):
        await metrics.get_counts(bench.bus, bench.queue, ["waiting"])


async def test_the_snapshot_counts_lanes_as_well(bench: Bench) -> None:
    await bench.fill([None, lane(1), lane(1), lane(2), lane(3), lane(4)])
    await lanes.pause(bench.bus, bench.queue, lane(2))
    await lanes.park(bench.bus, bench.queue, lane(3), 60_000)
    job = (await bench.take())[0]
    await bench.lapse(job)
    await bench.put(bench.job(delay_ms=60_000))
    counts = await metrics.counts(bench.bus, bench.queue)
    assert (counts.pending, counts.flat, counts.active, counts.scheduled, counts.dead) == (5, 1, 1, 1, 0)
    assert (counts.lanes, counts.lanes_serviceable, counts.lanes_paused, counts.lanes_resting) == (4, 2, 1, 1)
    assert (counts.lanes_active, counts.lanes_truncated, counts.paused) == (1, False, False)
    assert counts.oldest_age_ms is not None
    assert 0 <= counts.oldest_age_ms < 60_000
    assert counts.overdue_ms > 10**11
    await admin.pause(bench.bus, bench.queue)
    assert (await metrics.counts(bench.bus, bench.queue)).paused


async def test_an_empty_queue_has_no_oldest_job(bench: Bench) -> None:
    counts = await metrics.counts(bench.bus, bench.queue)
    assert (counts.pending, counts.oldest_age_ms, counts.overdue_ms) == (0, None, 0)


# drain and obliterate


async def test_draining_deletes_the_flat_backlog_and_nothing_else(bench: Bench) -> None:
    made = await bench.fill([None] * 600)
    late = bench.job(delay_ms=60_000)
    await bench.put(late)
    await bench.fill([lane(1)])
    held = (await bench.take())[0]
    assert await admin.drain(bench.bus, bench.queue) == 600 - (held.lane is None)
    assert await admin.get_job(bench.bus, bench.queue, made[-1]) is None
    assert await admin.get_job_state(bench.bus, bench.queue, held.id) == "active"
    assert await admin.get_job_state(bench.bus, bench.queue, late.id) == "scheduled"
    assert await admin.drain(bench.bus, bench.queue, include_schedule=True) == 1
    await bench.sound()


async def test_draining_frees_idempotency_keys(bench: Bench) -> None:
    await bench.put(bench.job(dedup=Dedup("k", 60_000)))
    await admin.drain(bench.bus, bench.queue)
    assert await admin.get_dedup(bench.bus, bench.queue, "k") is None


async def test_obliteration_needs_a_paused_idle_queue(bench: Bench) -> None:
    await bench.fill([None, None])
    with pytest.raises(WrongState, match="not paused"):
        await admin.obliterate(bench.bus, bench.queue)
    await bench.take()
    await admin.pause(bench.bus, bench.queue)
    with pytest.raises(WrongState, match="active jobs"):
        await admin.obliterate(bench.bus, bench.queue)
    assert await admin.obliterate(bench.bus, bench.queue, force=True)
    assert await bench.keys() == {}


async def test_obliteration_leaves_no_key_whatever_the_queue_held(bench: Bench) -> None:
    await limits.set_default_lane_limit(bench.bus, bench.queue, 3)
    await limits.set_rate(bench.bus, bench.queue, 1000, 60_000)
    await limits.set_lane_rate(bench.bus, bench.queue, 0.1, 1, lane=lane(0))
    await lanes.weight(bench.bus, bench.queue, lane(1), 3)
    await bury(bench, lane(1))
    await bench.fill([None] * 20 + [lane(i) for i in range(6)] * 4)
    await bench.put(bench.job(delay_ms=60_000), bench.job(dedup=Dedup("k", 60_000), lane=lane(1)))
    await bench.claim(13)
    await lanes.limit(bench.bus, bench.queue, lane(5), 1)
    await lanes.pause(bench.bus, bench.queue, lane(2))
    await lanes.park(bench.bus, bench.queue, lane(3), 60_000)
    await bench.raw("HSET", "repeat:daily", "every_ms", 1)
    await bench.raw("ZADD", "repeat", 1, "daily")
    await admin.pause(bench.bus, bench.queue)
    calls = 1
    while not await admin.obliterate(bench.bus, bench.queue, force=True, budget=7):
        calls += 1
        assert calls < 40
    assert calls > 5
    assert await bench.keys() == {}


async def test_a_queue_is_on_the_list_from_its_first_job_to_its_obliteration(bench: Bench) -> None:
    assert bench.queue not in await registry.queues(bench.bus)
    await bench.fill([None])
    assert bench.queue in await registry.queues(bench.bus)
    await admin.pause(bench.bus, bench.queue)
    await admin.obliterate(bench.bus, bench.queue)
    assert bench.queue not in await registry.queues(bench.bus)
    await admin.resume(bench.bus, bench.queue)
    await bench.fill([None])
    assert bench.queue in await registry.queues(bench.bus)


async def test_a_grouped_unclaimed_job_leaves_no_key_either(bench: Bench) -> None:
    await bench.fill([lane(1)])
    await admin.pause(bench.bus, bench.queue)
    assert await admin.obliterate(bench.bus, bench.queue)
    assert await bench.keys() == {}


# one job


async def test_a_payload_is_replaced_where_there_is_a_job(bench: Bench) -> None:
    (job_id,) = await bench.fill([None])
    assert await admin.update_data(bench.bus, bench.queue, job_id, b"new")
    assert (await bench.take())[0].payload == b"new"
    missing = bench.id()
    assert not await admin.update_data(bench.bus, bench.queue, missing, b"new")
    assert await admin.get_job(bench.bus, bench.queue, missing) is None
    with pytest.raises(InvalidValue):
        await admin.update_data(bench.bus, bench.queue, job_id, b"x" * 70_000)


@pytest.mark.parametrize("where", ["flat", "lane", "scheduled", "active", "full", "dead"])
async def test_a_job_is_removed_wherever_it_is(bench: Bench, where: str) -> None:
    if where == "dead":
        job_id = await bury(bench, lane(1))
    elif where == "scheduled":
        job = bench.job(delay_ms=60_000, lane=lane(1))
        await bench.put(job)
        job_id = job.id
    else:
        await lanes.limit(bench.bus, bench.queue, lane(1), 1 if where == "full" else 9)
        job_id = (await bench.fill([None if where == "flat" else lane(1)] * 2))[0]
        if where in ("active", "full"):
            await bench.take()
    assert await admin.remove_job(bench.bus, bench.queue, job_id)
    assert await admin.get_job(bench.bus, bench.queue, job_id) is None
    assert not await admin.remove_job(bench.bus, bench.queue, job_id)
    await bench.sound()
    if where == "full":
        await bench.take()


async def test_the_last_job_of_a_lane_takes_the_lane_with_it(bench: Bench) -> None:
    await limits.set_default_lane_limit(bench.bus, bench.queue, 1)
    (job_id,) = await bench.fill([lane(1)])
    await admin.remove_job(bench.bus, bench.queue, job_id)
    assert (await bench.ring(), await bench.raw("EXISTS", "glimit")) == ([], 0)
    await bench.sound()


async def test_removal_frees_the_key_that_points_at_the_job_and_no_other(bench: Bench) -> None:
    one = bench.job(dedup=Dedup("k", 60_000))
    two, three = bench.job(), bench.job()
    await bench.put(one, two, three)
    await bench.raw("SET", "de:mine", two.id)
    await bench.raw("SET", "de:orphan", one.id)
    await admin.remove_job(bench.bus, bench.queue, one.id)
    assert await admin.get_dedup(bench.bus, bench.queue, "k") is None
    await admin.remove_job(bench.bus, bench.queue, two.id, "mine")
    assert await admin.get_dedup(bench.bus, bench.queue, "mine") is None
    await admin.remove_job(bench.bus, bench.queue, three.id, "orphan")
    assert await admin.get_dedup(bench.bus, bench.queue, "orphan") == one.id


@pytest.mark.parametrize("mark", ["key", "field"])
async def test_a_locked_job_is_not_removed(bench: Bench, mark: str) -> None:
    (job_id,) = await bench.fill([lane(1)])
    if mark == "key":
        await bench.raw("SET", f"job:{job_id}:lock", "1")
    else:
        await bench.raw("HSET", f"job:{job_id}", "lock", "1")
    with pytest.raises(Locked):
        await admin.remove_job(bench.bus, bench.queue, job_id)
    assert await admin.get_job_state(bench.bus, bench.queue, job_id) == "pending"


@pytest.mark.parametrize("name", [None, lane(1)], ids=["flat", "lane"])
async def test_a_dead_letter_lives_again_in_its_lane_with_a_clean_record(bench: Bench, name: str | None) -> None:
    job_id = await bury(bench, name)
    await bench.raw("HSET", f"job:{job_id}", "stalled", 2, "expires_at", 1)
    await bench.bus.execute("DEL", bench.space.key("wake"))
    assert await admin.reprocess(bench.bus, bench.queue, job_id)
    assert not {"last_error", "failures", "stalled", "expires_at"} & set(await bench.row(job_id))
    assert await bench.wakes() == 1
    await bench.sound()
    (job,) = await bench.take()
    assert (job.id, job.token, job.lane, job.failures, job.stalled) == (job_id, "3", name, 0, 0)
    with pytest.raises(WrongState, match="not dead"):
        await admin.reprocess(bench.bus, bench.queue, job_id)
    assert not await admin.reprocess(bench.bus, bench.queue, bench.id())


# dead letters


async def test_dead_letters_are_kept_up_to_a_number_the_newest_first(bench: Bench) -> None:
    dead = [await bury(bench, lane(1)) for _ in range(5)]
    assert await admin.browse(bench.bus, bench.queue, 2, dead=True) == dead[:2:-1]
    assert await admin.trim_dead(bench.bus, bench.queue, keep=2) == 3
    assert await admin.browse(bench.bus, bench.queue, dead=True) == dead[:2:-1]
    assert await admin.get_job(bench.bus, bench.queue, dead[0]) is None
    await bench.sound()


async def test_dead_letters_minted_before_an_instant_go(bench: Bench) -> None:

    dead = [await bury(bench) for _ in range(2)]
    after = ids.parse(dead[-1]).unix_ms + 1
    assert await admin.trim_dead(bench.bus, bench.queue, minted_before_ms=after - 60_000) == 0
    assert await admin.trim_dead(bench.bus, bench.queue, minted_before_ms=after, limit=1) == 1
    assert await admin.trim_dead(bench.bus, bench.queue, minted_before_ms=after) == 1
    await bench.sound()


# what a promotion and a recovery find after an operator's change


async def test_a_scheduled_job_promoted_into_a_paused_lane_waits(bench: Bench) -> None:
    job = bench.job(delay_ms=60_000, lane=lane(1))
    await bench.put(job)
    await lanes.pause(bench.bus, bench.queue, lane(1))
    await bench.due(job.id)
    assert (await promotion.promote(bench.bus, bench.queue)).jobs == 1
    assert await bench.ring() == []
    await bench.sound()


async def test_promotion_drops_ids_without_rows_and_is_bounded(bench: Bench) -> None:
    made = [bench.job(delay_ms=60_000) for _ in range(4)]
    await bench.put(*made)
    await bench.due(*(job.id for job in made))
    await bench.bus.execute("DEL", bench.space.row(made[0].id))
    assert (await promotion.promote(bench.bus, bench.queue, 3)).jobs == 2
    assert (await promotion.promote(bench.bus, bench.queue, 3)).jobs == 1
    await bench.sound()
    with pytest.raises(InvalidValue):
        await promotion.promote(bench.bus, bench.queue, 0)


async def test_a_lapsed_job_of_a_paused_lane_waits_there(bench: Bench) -> None:
    await bench.fill([lane(1)])
    (job,) = await bench.take()
    await lanes.pause(bench.bus, bench.queue, lane(1))
    await bench.lapse(job)
    await recovery.recover(bench.bus, bench.queue)
    assert await bench.ring() == []
    await bench.sound()


async def test_an_instant_behind_the_last_id_is_behind_every_dead_letter(bench: Bench) -> None:
    await bench.fill([None])
    (job,) = await bench.take()
    await bench.settle(job, Discard("no"))
    assert await admin.trim_dead(bench.bus, bench.queue, minted_before_ms=4_102_444_800_000) == 1
