"""A task is a function that can be called, a producer of its jobs, and a maker of workers like those by hand."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable
from typing import Any, cast

import pytest

from codemojex.engine.backoff import Fixed
from codemojex.engine.errors import InvalidName, InvalidValue
from codemojex.engine.inspection import metrics
from codemojex.engine.jobs.effects import Effect, EffectBody
from codemojex.engine.jobs.jobs import Duplicate, Enqueued, Job, Scheduled
from codemojex.engine.jobs.outcome import Complete, Discard, Outcome, Retry
from codemojex.engine.testing import run_until_idle
from codemojex.engine.worker.batch_worker import Partition
from codemojex.engine.worker.task import batch_task, task
from codemojex.engine.worker.worker import WorkerOptions
from tests.engine.bench import Bench, lane
from tests.engine.worker.handlers_elsewhere import coroutine

COUNT = EffectBody("count", "return redis.call('INCR', KEYS[1])")


@task("mail", concurrency=8, backoff=Fixed(50))
async def send(job: Job) -> Outcome | None:
    """Send one letter."""
    return None if job.payload else Retry("nothing to send")


async def test_the_function_can_still_be_called_and_keeps_its_name() -> None:
    job = Job("JOB00000000001", b"letter", "1", None, 0, 0, "mail", 0)
    assert await send(job) is None
    empty = Job("JOB00000000002", b"", "1", None, 0, 0, "mail", 0)
    assert await send(empty) == Retry("nothing to send")
    assert (vars(send)["__name__"], inspect.getdoc(send)) == ("send", "Send one letter.")
    assert (send.queue, send.options) == ("mail", WorkerOptions(concurrency=8, backoff=Fixed(50)))


async def test_its_worker_works_the_jobs_that_it_admits(bench: Bench) -> None:
    seen: list[tuple[bytes, str | None]] = []
    told: list[str] = []
    key = bench.space.key("stream:count")  # any key of the queue will do

    @task(bench.queue, max_attempts=1)
    async def note(job: Job) -> Outcome:
        seen.append((job.payload, job.lane))
        if job.payload == b"bad":
            raise RuntimeError("no")
        return Complete(effect=Effect("count", keys=[key]))

    first = bench.id()
    assert await note.enqueue(bench.bus, first, b"flat") == Enqueued()
    assert await note.enqueue(bench.bus, first, b"flat") == Duplicate(first)
    assert await note.admit(bench.bus, bench.job(lane=lane(1))) == Enqueued()
    assert await note.admit(bench.bus, bench.job(delay_ms=60_000)) == Scheduled()
    await note.enqueue(bench.bus, bench.id(), b"bad")
    worker = note.worker(bench.bus, effects=[COUNT], observe=lambda name, _: told.append(name))
    await run_until_idle(bench.bus, bench.queue, worker, ahead_ms=1_000)
    assert sorted(seen, key=str) == sorted([(b"flat", None), (b"x", lane(1)), (b"bad", None)], key=str)
    counts = await metrics.counts(bench.bus, bench.queue)
    assert (counts.completed, counts.dead, counts.scheduled) == (2, 1, 1), "its own max_attempts"
    assert await bench.bus.execute("GETDEL", key) == b"2"
    assert "worker.claimed" in told
    await bench.sound()


async def test_a_plain_function_is_a_task_alike(bench: Bench) -> None:
    threads: list[bool] = []

    @task(bench.queue)
    def note(job: Job) -> Outcome:
        threads.append(threading.current_thread() is not threading.main_thread())
        return Complete() if job.payload else Retry("nothing to note")

    job = Job("JOB00000000001", b"", "1", None, 0, 0, "mail", 0)
    assert note(job) == Retry("nothing to note"), "a call is a call"
    await note.enqueue(bench.bus, bench.id(), b"x")
    await run_until_idle(bench.bus, bench.queue, note.worker(bench.bus))
    assert threads == [False, True]


@pytest.mark.parametrize("plain", [False, True])
async def test_a_function_of_a_batch_is_a_task_alike_and_answers_per_member(bench: Bench, plain: bool) -> None:
    parts: list[Partition] = []
    sizes: list[int] = []

    def answers(jobs: list[Job]) -> dict[str, Outcome | None]:
        sizes.append(len(jobs))
        good = {job.id: None for job in jobs if job.payload == b"good"}
        return {**good, **{job.id: Discard("no") for job in jobs if job.payload == b"bad"}}

    async def later(jobs: list[Job]) -> dict[str, Outcome | None]:
        return answers(jobs)

    decorate = batch_task(bench.queue, min_size=3, max_size=3, timeout_ms=60_000, max_attempts=1)
    work = decorate(answers) if plain else decorate(later)
    assert (work.queue, work.options.min_size) == (bench.queue, 3)
    ids = [bench.id() for _ in range(3)]
    for job_id, payload in zip(ids, (b"good", b"bad", b"forgotten"), strict=True):
        assert await work.enqueue(bench.bus, job_id, payload) == Enqueued()
    await run_until_idle(bench.bus, bench.queue, work.worker(bench.bus, on_settled=parts.append))
    assert sizes == [3]
    assert parts == [Partition(completed=(ids[0],), dead=(ids[1], ids[2]))]
    assert (await bench.row(ids[2]))["last_error"] == "missing verdict"
    await bench.sound()


@pytest.mark.parametrize(
    ("decorate", "error"),
    [
        (lambda: task("a b"), InvalidName),
        (lambda: task("mail", concurrency=0), InvalidValue),
        (lambda: task("mail", grace_ms=-1), InvalidValue),
        (lambda: cast(Any, task)("mail", speed=1), TypeError),
        (lambda: task("mail", runs_in="nowhere"), InvalidValue),  # pyright: ignore[reportArgumentType]
        (lambda: task("mail", runs_in="process")(coroutine), InvalidValue),
        (lambda: cast(Any, task("mail"))(5), InvalidValue),
        (lambda: batch_task("a b"), InvalidName),
        (lambda: batch_task("mail", min_size=0), InvalidValue),
        (lambda: cast(Any, batch_task("mail"))(None), InvalidValue),
    ],
)
def test_what_cannot_be_a_task_is_refused_where_it_is_written(
    decorate: Callable[[], object], error: type[Exception]
) -> None:
    with pytest.raises(error):
        decorate()
