"""Notes on a job: progress and log lines, kept in the row's own forms, and nothing for a job that is not there."""

from __future__ import annotations

import pytest

from codemojex.engine.errors import InvalidId, InvalidValue
from codemojex.engine.inspection import admin
from codemojex.engine.jobs import progress, pubsub
from tests.engine.bench import Bench


async def test_progress_is_written_and_told_in_one_step(bench: Bench) -> None:
    (job_id,) = await bench.fill([None])
    async with pubsub.subscribe(bench.bus, bench.queue) as heard:
        assert await progress.update_progress(bench.bus, bench.queue, job_id, '50 % "ok"')
        event = await anext(heard)
    assert (await bench.row(job_id))["progress"] == '50 % "ok"'
    assert (event.name, event.job, event.data) == ("progress", job_id, {"progress": '50 % "ok"'})
    assert event.raw == f'{{"event":"progress","job":"{job_id}","progress":"50 % \\"ok\\""}}'.encode()


async def test_progress_of_a_missing_job_is_typed_absent_and_makes_nothing(bench: Bench) -> None:
    async with pubsub.subscribe(bench.bus, bench.queue) as heard:
        assert not await progress.update_progress(bench.bus, bench.queue, bench.id(), "1")
        await pubsub.publish(bench.bus, bench.queue, "completed", bench.id())
        assert (await anext(heard)).name == "completed"
    assert await bench.keys() == {}


async def test_logs_are_kept_in_order_and_trimmed_to_the_last_lines(bench: Bench) -> None:
    (job_id,) = await bench.fill([None])
    assert await progress.get_logs(bench.bus, bench.queue, job_id) == []
    lengths = [await progress.add_log(bench.bus, bench.queue, job_id, f"line {i}", keep=0) for i in range(3)]
    assert lengths == [1, 2, 3]
    assert await progress.add_log(bench.bus, bench.queue, job_id, "line 3", keep=2) == 2
    assert await progress.add_log(bench.bus, bench.queue, job_id, "line 4", keep=9) == 3
    assert await progress.get_logs(bench.bus, bench.queue, job_id) == ["line 2", "line 3", "line 4"]
    assert await progress.get_logs(bench.bus, bench.queue, job_id, -1) == ["line 4"]
    assert await bench.raw("LRANGE", f"job:{job_id}:logs", 0, -1) == [b"line 2", b"line 3", b"line 4"]
    assert (await bench.keys())[f"job:{job_id}:logs"] == "list"


async def test_a_log_expires_when_nobody_writes_any_more_and_goes_with_its_job(bench: Bench) -> None:
    (job_id,) = await bench.fill([None])
    await progress.add_log(bench.bus, bench.queue, job_id, "line")
    assert 0 < await bench.raw("PTTL", f"job:{job_id}:logs") <= progress.LOG_LIFE_MS
    await admin.remove_job(bench.bus, bench.queue, job_id)
    assert await bench.raw("EXISTS", f"job:{job_id}:logs") == 0


async def test_a_log_can_be_read_after_its_job_completed(bench: Bench) -> None:
    await bench.fill([None])
    (job,) = await bench.take()
    await progress.add_log(bench.bus, bench.queue, job.id, "line")
    await bench.settle(job)
    assert await progress.get_logs(bench.bus, bench.queue, job.id) == ["line"]


async def test_logs_of_a_missing_job_are_typed_absent_and_make_nothing(bench: Bench) -> None:
    assert await progress.add_log(bench.bus, bench.queue, bench.id(), "line") is None
    assert await progress.get_logs(bench.bus, bench.queue, bench.id()) is None
    assert await bench.keys() == {}


async def test_a_note_that_is_too_long_or_on_no_job_is_refused(bench: Bench) -> None:
    (job_id,) = await bench.fill([None])
    with pytest.raises(InvalidValue):
        await progress.add_log(bench.bus, bench.queue, job_id, "x" * 5_000)
    with pytest.raises(InvalidValue):
        await progress.add_log(bench.bus, bench.queue, job_id, "x", keep=-1)
    with pytest.raises(InvalidValue):
        await progress.update_progress(bench.bus, bench.queue, job_id, "x" * 5_000)
    with pytest.raises(InvalidId):
        await progress.add_log(bench.bus, bench.queue, "7", "x")
