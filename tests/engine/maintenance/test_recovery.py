"""Lapsed leases: one transition, counted apart from failures."""

from __future__ import annotations

import pytest

from codemojex.engine.errors import InvalidValue, StaleToken
from codemojex.engine.jobs import settlement
from codemojex.engine.jobs.outcome import Complete
from codemojex.engine.jobs.settlement import Settled
from codemojex.engine.lanes import lanes
from codemojex.engine.maintenance import recovery
from tests.engine.bench import Bench, lane


@pytest.mark.parametrize("name", [None, lane(1)], ids=["flat", "lane"])
async def test_a_lapsed_job_returns_to_its_place_in_one_scan(bench: Bench, name: str | None) -> None:
    made = await bench.fill([name, name])
    (job,) = await bench.take()
    assert (await recovery.recover(bench.bus, bench.queue)).waiting == []
    await bench.lapse(job)
    await bench.bus.execute("DEL", bench.space.key("wake"))
    assert await recovery.recover(bench.bus, bench.queue) == recovery.Recovered([job.id], [])
    row = await bench.row(job.id)
    assert (row["state"], row["attempts"], row["stalled"]) == ("pending", "1", "1")
    assert (
        await bench.raw(
            "EXISTS",
            "active",
        )
        == 0
    )
    assert await bench.raw("EXISTS", "gactive") == 0
    await bench.sound()
    again = (await bench.take(2))[0]
    assert (again.id, again.token, again.stalled, again.failures) == (made[0], "2", 1, 0)


async def test_recovered_flat_work_and_a_recovered_lane_wake_workers(bench: Bench) -> None:
    await bench.fill([None, lane(1)])
    await bench.lapse(*await bench.take(2))
    assert await bench.wakes() == 0
    await recovery.recover(bench.bus, bench.queue)
    assert await bench.wakes() == 2


async def test_a_lapsed_job_frees_the_seat_of_a_full_lane(bench: Bench) -> None:

    await lanes.limit(bench.bus, bench.queue, lane(1), 1)
    await bench.fill([lane(1)] * 2)
    (job,) = await bench.take()
    await bench.lapse(job)
    await recovery.recover(bench.bus, bench.queue)
    assert await bench.ring() == [lane(1)]
    await bench.sound()


@pytest.mark.parametrize("name", [None, lane(1)], ids=["flat", "lane"])
async def test_a_job_that_kills_its_workers_dies_at_the_cap(bench: Bench, name: str | None) -> None:
    await bench.fill([name])
    for lapse in range(1, 4):
        (job,) = await bench.take()
        await bench.lapse(job)
        answer = await recovery.recover(bench.bus, bench.queue)
        assert (job.id in answer.dead) == (lapse == 3)
        await bench.sound()
    row = await bench.row(job.id)
    assert (row["state"], row["last_error"], row["stalled"]) == ("dead", "stalled", "3")
    assert await bench.raw("HGET", "metrics:failed", "count") == b"1"


async def test_the_cap_is_the_caller_s(bench: Bench) -> None:
    await bench.fill([None])
    (job,) = await bench.take()
    await bench.lapse(job)
    assert (await recovery.recover(bench.bus, bench.queue, max_stalled=1)).dead == [job.id]


async def test_only_the_named_lane_is_recovered(bench: Bench) -> None:
    await bench.fill([lane(1), lane(2), None])
    jobs = await bench.take(3)
    await bench.lapse(*jobs)
    answer = await recovery.recover(bench.bus, bench.queue, lane=lane(1))
    assert answer.waiting == [job.id for job in jobs if job.lane == lane(1)]
    assert await bench.raw("ZCARD", "active") == 2
    assert await bench.raw("HGETALL", "gactive") == {lane(2).encode(): b"1"}
    await bench.sound()


async def test_a_recovery_is_bounded_by_its_limit(bench: Bench) -> None:
    await bench.fill([None] * 5)
    await bench.lapse(*await bench.take(5))
    assert len((await recovery.recover(bench.bus, bench.queue, limit=3)).waiting) == 3
    assert len((await recovery.recover(bench.bus, bench.queue, limit=3)).waiting) == 2


async def test_a_lapsed_id_without_a_row_is_dropped(bench: Bench) -> None:
    await bench.fill([None])
    (job,) = await bench.take()
    await bench.lapse(job)
    await bench.bus.execute("DEL", bench.space.row(job.id))
    assert await recovery.recover(bench.bus, bench.queue) == recovery.Recovered([], [])
    assert await bench.raw("EXISTS", f"job:{job.id}") == 0
    await bench.sound()


async def test_the_old_holder_is_refused_once_the_job_was_claimed_again(bench: Bench) -> None:
    await bench.fill([lane(1)])
    (old,) = await bench.take()
    await bench.lapse(old)
    await recovery.recover(bench.bus, bench.queue)
    (new,) = await bench.take()
    with pytest.raises(StaleToken):
        await settlement.complete(bench.bus, bench.queue, old.id, old.token)
    assert await bench.settle(new, Complete()) == Settled("completed")
    await bench.sound()


async def test_a_recovery_out_of_range_is_refused(bench: Bench) -> None:
    with pytest.raises(InvalidValue):
        await recovery.recover(bench.bus, bench.queue, limit=0)
    with pytest.raises(InvalidValue):
        await recovery.recover(bench.bus, bench.queue, max_stalled=0)
