"""Marks of jobs in flight: they keep operators off, expire by themselves, and only their holder takes them away."""

from __future__ import annotations

import asyncio

import pytest

from codemojex.engine.errors import InvalidValue, Locked
from codemojex.engine.inspection import admin
from codemojex.engine.jobs import removal_marks
from codemojex.engine.jobs.claims import MAX_LEASE_MS
from codemojex.engine.jobs.outcome import Discard
from codemojex.engine.jobs.removal_marks import LockPlane
from tests.engine.bench import LEASE, Bench, lane
from tests.support.waiting import until


async def test_the_marks_of_a_held_job_byte_by_byte(bench: Bench) -> None:
    await bench.fill([None])
    (job,) = await bench.take()
    assert await removal_marks.track(bench.bus, bench.queue, [(job.id, job.token)], 60_000) == [True]
    assert await bench.raw("GET", f"job:{job.id}:lock") == b"1"
    assert (await bench.row(job.id))["lock"] == "1"
    assert 50_000 < await bench.raw("PTTL", f"job:{job.id}:lock") <= 60_000
    (field_ttl,) = await bench.raw("HPTTL", f"job:{job.id}", "FIELDS", 1, "lock")
    assert 50_000 < field_ttl <= 60_000
    assert await bench.raw("PTTL", f"job:{job.id}") == -1, "the row itself does not expire"


async def test_a_held_job_is_not_removed_until_it_is_let_go(bench: Bench) -> None:
    await bench.fill([lane(1)])
    (job,) = await bench.take()
    held = [(job.id, job.token)]
    await removal_marks.track(bench.bus, bench.queue, held, 60_000)
    before = await bench.row(job.id)
    with pytest.raises(Locked, match="locked"):
        await admin.remove_job(bench.bus, bench.queue, job.id)
    assert await bench.row(job.id) == before
    assert await removal_marks.untrack(bench.bus, bench.queue, held) == [True]
    assert "lock" not in await bench.row(job.id)
    assert await admin.remove_job(bench.bus, bench.queue, job.id)
    await bench.sound()


async def test_several_jobs_are_marked_and_let_go_in_one_call(bench: Bench) -> None:
    await bench.fill([None] * 3)
    one, two, three = [(job.id, job.token) for job in await bench.take(3)]
    named = [one, (bench.id(), "1"), two, three]
    assert await removal_marks.track(bench.bus, bench.queue, named, 60_000) == [True, False, True, True]
    assert [(await bench.row(job_id))["lock"] for job_id, _ in (one, two, three)] == ["1"] * 3
    assert await removal_marks.untrack(bench.bus, bench.queue, named) == [True, False, True, True]
    for job_id, _ in (one, two, three):
        assert "lock" not in await bench.row(job_id)


@pytest.mark.parametrize("mark", ["key", "field"])
async def test_each_mark_alone_holds_and_disappears_alone(bench: Bench, mark: str) -> None:
    await bench.fill([None])
    (job,) = await bench.take()
    job_id = job.id
    assert await removal_marks.track(bench.bus, bench.queue, [(job_id, "1")], 100) == [True]
    if mark == "key":
        await bench.raw("HDEL", f"job:{job_id}", "lock")
    else:
        await bench.raw("DEL", f"job:{job_id}:lock")
    with pytest.raises(Locked):
        await admin.remove_job(bench.bus, bench.queue, job_id)

    async def free() -> bool:
        gone = not await bench.raw("EXISTS", f"job:{job_id}:lock")
        return gone and await bench.raw("HEXISTS", f"job:{job_id}", "lock") == 0

    await until(free)
    assert await bench.row(job_id) == {"state": "active", "attempts": "1", "payload": "x"}
    assert await admin.remove_job(bench.bus, bench.queue, job_id)


async def test_a_job_that_is_not_there_is_not_marked(bench: Bench) -> None:
    assert await removal_marks.track(bench.bus, bench.queue, [(bench.id(), "1")], 60_000) == [False]
    assert await bench.keys() == {}


async def test_a_job_that_waits_or_is_dead_is_not_marked(bench: Bench) -> None:
    dead, *waiting = await bench.fill([None, None, lane(1)])
    (job,) = await bench.take()
    await bench.settle(job, Discard("no"))
    later = bench.job(delay_ms=60_000)
    await bench.put(later)
    before = await bench.keys()
    named = [(job_id, "0") for job_id in (dead, later.id, *waiting)]
    assert await removal_marks.track(bench.bus, bench.queue, named, 60_000) == [False] * 4
    assert await bench.keys() == before


async def test_marks_of_another_holder_stay(bench: Bench) -> None:
    await bench.fill([None])
    (job,) = await bench.take()
    await removal_marks.track(bench.bus, bench.queue, [(job.id, "7")], 60_000)
    assert await removal_marks.untrack(bench.bus, bench.queue, [(job.id, job.token)]) == [False]
    assert (await bench.row(job.id))["lock"] == "7"


async def test_a_refresh_renews_leases_and_marks_of_what_is_held_and_names_the_rest(bench: Bench) -> None:
    await bench.fill([None, None])
    live, lapsed = await bench.take(2)
    gone = bench.id()
    held = [(live.id, live.token), (lapsed.id, "9"), (gone, "1")]
    await removal_marks.track(bench.bus, bench.queue, held, 1_000)
    before = await bench.raw("ZSCORE", "active", live.id)
    assert await removal_marks.refresh(bench.bus, bench.queue, held, 2 * LEASE) == [lapsed.id, gone]
    assert await bench.raw("ZSCORE", "active", live.id) > before + LEASE / 2
    assert await bench.raw("PTTL", f"job:{live.id}:lock") > 3 * LEASE
    assert await bench.raw("PTTL", f"job:{lapsed.id}:lock") <= 1_000
    assert (await bench.raw("HPTTL", f"job:{lapsed.id}", "FIELDS", 1, "lock"))[0] <= 1_000
    assert await bench.raw("EXISTS", f"job:{gone}:lock") == 0


async def test_a_plane_renews_what_it_tracks_every_half_lease_and_keeps_what_failed(bench: Bench) -> None:
    await bench.fill([None, None])
    one, two = await bench.take(2)
    plane = LockPlane(bench.bus, bench.queue, lease_ms=100)
    assert await plane.track(one.id, one.token)
    assert await plane.track(two.id, "9")
    assert not await plane.track(bench.id(), "1")
    assert plane.held == {one.id: one.token, two.id: "9"}
    first = await bench.raw("ZSCORE", "active", one.id)
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(plane.run())
        await until(lambda: _renewed(bench, one.id, first))
        plane.stop()
    assert await plane.beat() == [two.id]
    assert two.id in plane.held
    assert await plane.untrack(one.id)
    assert not await plane.untrack(one.id)
    assert await bench.raw("EXISTS", f"job:{one.id}:lock") == 0
    assert await LockPlane(bench.bus, bench.queue).beat() == []


async def _renewed(bench: Bench, job_id: str, first: float) -> bool:
    return await bench.raw("ZSCORE", "active", job_id) != first


async def test_what_a_lock_cannot_mean_is_refused(bench: Bench) -> None:
    with pytest.raises(InvalidValue):
        await removal_marks.track(bench.bus, bench.queue, [(bench.id(), "1")], 0)
    with pytest.raises(InvalidValue):
        await removal_marks.refresh(bench.bus, bench.queue, [], 10)
    with pytest.raises(InvalidValue, match="a day"):
        await removal_marks.refresh(bench.bus, bench.queue, [(bench.id(), "1")], MAX_LEASE_MS + 1)
    with pytest.raises(InvalidValue):
        LockPlane(bench.bus, bench.queue, lease_ms=0)
