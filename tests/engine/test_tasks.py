"""A task is a function that can be called, a producer of its jobs, and a maker of workers like those by hand."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, cast

import pytest

from codemojex.engine import metrics
from codemojex.engine.backoff import Fixed
from codemojex.engine.effects import Effect, EffectBody
from codemojex.engine.errors import InvalidName, InvalidValue
from codemojex.engine.jobs import Duplicate, Enqueued, Job, Scheduled
from codemojex.engine.outcome import Complete, Outcome, Retry
from codemojex.engine.tasks import task
from codemojex.engine.testing import run_until_idle
from codemojex.engine.worker import WorkerOptions

from .bench import Bench, lane

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


def _plain(job: Job) -> None:
    del job


@pytest.mark.parametrize(
    ("decorate", "error"),
    [
        (lambda: task("a b"), InvalidName),
        (lambda: task("mail", concurrency=0), InvalidValue),
        (lambda: task("mail", grace_ms=-1), InvalidValue),
        (lambda: cast(Any, task)("mail", speed=1), TypeError),
        (lambda: task("mail")(_plain), InvalidValue),  # pyright: ignore[reportArgumentType]
    ],
)
def test_what_cannot_be_a_task_is_refused_where_it_is_written(
    decorate: Callable[[], object], error: type[Exception]
) -> None:
    with pytest.raises(error):
        decorate()
