"""A plain function is a handler: it runs in a thread, or in a process, while the loop keeps its lease."""

from __future__ import annotations

import asyncio
import contextvars
import os
import threading
import time
from collections.abc import Callable
from typing import Any, cast

import pytest

from codemojex.engine.backoff import Fixed
from codemojex.engine.errors import InvalidValue
from codemojex.engine.inspection import metrics
from codemojex.engine.jobs import cancel
from codemojex.engine.jobs.jobs import Job
from codemojex.engine.jobs.outcome import Complete, Outcome, Retry
from codemojex.engine.jobs.settlement import Settled
from codemojex.engine.testing import run_until_idle
from codemojex.engine.worker.batch_worker import BatchOptions, BatchWorker
from codemojex.engine.worker.task import task
from codemojex.engine.worker.worker import Worker, WorkerOptions
from tests.engine.bench import Bench, running
from tests.engine.worker import handlers_elsewhere as elsewhere
from tests.engine.worker.test_blocked_loops import Told, until

VALUE: contextvars.ContextVar[str] = contextvars.ContextVar("value", default="unset")


class Gate:
    """A plain handler that waits until it may end."""

    def __init__(self) -> None:
        self.open = threading.Event()
        self.begun: list[str] = []
        self.ended: list[str] = []

    def __call__(self, job: Job) -> Outcome:
        self.begun.append(job.id)
        self.open.wait(30)
        self.ended.append(job.id)
        return Complete()


async def test_a_plain_handler_that_takes_three_leases_is_run_once(bench: Bench) -> None:
    runs: list[str] = []
    told = Told()

    def slow(job: Job) -> None:
        runs.append(job.id)
        time.sleep(1.5)

    options = WorkerOptions(lease_ms=500, beat_ms=50)
    ids = await bench.fill([None] * 3)
    workers = [Worker(bench.bus, bench.queue, slow, options=options, observe=told) for _ in range(2)]
    await run_until_idle(bench.bus, bench.queue, *workers, timeout_s=20)
    assert sorted(runs) == sorted(ids)
    assert (await metrics.counts(bench.bus, bench.queue)).completed == 3
    assert not told.of("worker.lease_lost")
    await bench.sound()


async def test_context_variables_and_the_token_reach_the_thread(bench: Bench) -> None:
    seen: list[object] = []

    def look(job: Job) -> None:
        seen.append((VALUE.get(), cancel.token_of(job).check(), threading.current_thread().name))

    async def around(jobs: list[Job], work: Any) -> Any:
        VALUE.set("set by a middleware")
        cancel.token_of(jobs[0]).cancel("only a flag")
        return await work(jobs)

    await bench.fill([None])
    await run_until_idle(bench.bus, bench.queue, Worker(bench.bus, bench.queue, look, middleware=[around]))
    assert seen[0][:2] == ("set by a middleware", "only a flag")  # type: ignore[index]
    assert "handler-" in seen[0][2]  # type: ignore[index]


async def test_what_a_plain_handler_raises_and_answers_counts_as_an_async_ones(bench: Bench) -> None:
    def bad(job: Job) -> Any:
        if job.payload == b"raise":
            raise ValueError("no good")
        if job.payload == b"stop":
            raise StopIteration("odd")
        return elsewhere.coroutine(job)

    ids = [(await bench.fill([None], payload))[0] for payload in (b"raise", b"stop", b"await")]
    options = WorkerOptions(max_attempts=1)
    await run_until_idle(bench.bus, bench.queue, Worker(bench.bus, bench.queue, bad, options=options))
    errors = [(await bench.row(job_id))["last_error"] for job_id in ids]
    assert errors[0] == "ValueError: no good"
    assert "StopIteration" in errors[1]
    assert "write `async def`" in errors[2]


async def test_a_thread_whose_job_timed_out_keeps_its_slot_until_it_ends(bench: Bench) -> None:
    gate, told = Gate(), Told()
    options = WorkerOptions(concurrency=1, beat_ms=50, max_attempts=1)
    async with running(Worker(bench.bus, bench.queue, gate, options=options, observe=told)):
        late = bench.job(timeout_ms=100)
        await bench.put(late)
        await until(lambda: told.of("worker.settled"))
        assert told.of("worker.settled")[0]["verdict"] == Settled("dead"), "the failure is settled at once"
        (left,) = told.of("worker.thread_left")
        assert left["jobs"] == [late.id]
        assert str(left["handler"]).endswith("Gate")
        (second,) = await bench.fill([None])
        await asyncio.sleep(0.3)
        assert gate.begun == [late.id]
        assert (await bench.row(second))["state"] == "pending", "the only slot is taken, so it is not even claimed"
        gate.open.set()
        await until(lambda: gate.ended == [late.id, second])
    assert len(told.of("worker.settled")) == 2, "its late result goes nowhere"
    await bench.sound()


async def test_a_thread_that_lost_its_lease_keeps_its_slot_and_its_result_is_refused(bench: Bench) -> None:
    gate, told = Gate(), Told()
    options = WorkerOptions(concurrency=1, lease_ms=300, beat_ms=50)
    async with running(Worker(bench.bus, bench.queue, gate, options=options, observe=told)):
        (job_id,) = await bench.fill([None])
        await until(lambda: gate.begun)
        await bench.raw("HSET", f"job:{job_id}", "attempts", "99")  # another one has it
        await until(lambda: told.of("worker.thread_left"))
        await bench.raw("ZREM", "active", job_id)
        (second,) = await bench.fill([None])
        await asyncio.sleep(0.3)
        assert (await bench.row(second))["state"] == "pending"
        gate.open.set()
        await until(lambda: gate.ended == [job_id, second])
    assert [data["job"] for data in told.of("worker.settled")] == [second]


async def test_a_batch_in_a_thread_keeps_the_worker_until_it_ends(bench: Bench) -> None:
    gate = threading.Event()
    calls: list[int] = []

    def batch(jobs: Any) -> dict[str, Outcome | None]:
        calls.append(len(jobs))
        gate.wait(30)
        return {}

    options = BatchOptions(min_size=2, max_size=2, timeout_ms=50, max_attempts=1, beat_ms=50)
    told = Told()
    async with running(BatchWorker(bench.bus, bench.queue, batch, options=options, observe=told)):
        await bench.put(*(bench.job(timeout_ms=100) for _ in range(2)))
        await until(lambda: len(told.of("worker.settled")) == 2)
        ids = await bench.fill([None] * 2)
        await asyncio.sleep(0.3)
        assert [(await bench.row(job_id))["state"] for job_id in ids] == ["pending"] * 2
        assert calls == [2]
        gate.set()
        await until(lambda: calls == [2, 2])


async def test_a_stop_does_not_wait_for_a_thread_beyond_the_grace(bench: Bench) -> None:
    gate, told = Gate(), Told()
    options = WorkerOptions(concurrency=1, grace_ms=100, unwind_ms=100)
    worker = Worker(bench.bus, bench.queue, gate, options=options, observe=told)
    (job_id,) = await bench.fill([None])
    async with asyncio.timeout(10):
        async with running(worker):
            await until(lambda: gate.begun)
    assert (await bench.row(job_id))["state"] == "pending", "it went back as if never claimed"
    gate.open.set()
    await until(lambda: gate.ended)
    assert [data["verdict"] for data in told.of("worker.settled")] == [Settled("pending")]
    await bench.sound()


async def test_threads_end_with_their_worker(bench: Bench) -> None:
    def work(job: Job) -> None:
        del job

    await bench.fill([None] * 8)
    await run_until_idle(bench.bus, bench.queue, Worker(bench.bus, bench.queue, work))
    await until(lambda: not any("test_threads_end" in thread.name for thread in threading.enumerate()))


def _alive(number: int) -> bool:
    try:
        os.kill(number, 0)
    except ProcessLookupError:
        return False
    return True


async def test_a_process_handler_runs_in_another_process_and_a_dead_one_fails_only_its_job(bench: Bench) -> None:
    results: list[int] = []
    options = WorkerOptions(concurrency=1, runs_in="process", max_attempts=1)
    ids = {name: (await bench.fill([None], name))[0] for name in (b"well", b"die", b"odd", b"again")}

    async def note(jobs: list[Job], work: Any) -> Any:
        answered = await work(jobs)
        results.append(int(cast("bytes", answered[0].result)))
        return answered

    worker = Worker(bench.bus, bench.queue, elsewhere.pid, options=options, middleware=[note])
    await run_until_idle(bench.bus, bench.queue, worker, timeout_s=30)
    assert len(results) == 2
    assert os.getpid() not in results
    assert "exit code 7" in (await bench.row(ids[b"die"]))["last_error"]
    assert "OddError: this and that" in (await bench.row(ids[b"odd"]))["last_error"]
    await until(lambda: not _alive(results[1]))


async def test_a_process_handler_past_its_time_limit_is_killed_and_frees_its_slot(bench: Bench) -> None:
    told = Told()
    options = WorkerOptions(concurrency=1, runs_in="process", max_attempts=1, beat_ms=50)
    async with running(Worker(bench.bus, bench.queue, elsewhere.pid, options=options, observe=told)):
        await bench.put(bench.job(b"hang", timeout_ms=300))
        await until(lambda: told.of("worker.settled"))
        await bench.fill([None])
        await until(lambda: len(told.of("worker.settled")) == 2)
    assert [data["verdict"] for data in told.of("worker.settled")] == [Settled("dead"), Settled("completed")]
    assert not told.of("worker.thread_left")


async def test_a_task_in_a_process_is_found_by_its_name(bench: Bench) -> None:
    for made in (elsewhere.named, elsewhere.many):
        made.queue = bench.queue
    await bench.fill([None])
    await run_until_idle(bench.bus, bench.queue, elsewhere.named.worker(bench.bus), timeout_s=30)
    await bench.fill([None] * 2)
    await run_until_idle(bench.bus, bench.queue, elsewhere.many.worker(bench.bus), timeout_s=30)
    assert (await metrics.counts(bench.bus, bench.queue)).completed == 3


def _inner() -> Callable[[Job], Outcome]:
    def inner(job: Job) -> Outcome:
        return Retry(job.id)

    return inner


@pytest.mark.parametrize("handler", [lambda job: Retry(job.id), _inner()], ids=["lambda", "inner"])  # pyright: ignore[reportUnknownLambdaType,reportUnknownMemberType,reportUnknownArgumentType]
def test_a_function_that_no_process_finds_is_refused_at_the_start(
    bench: Bench, handler: Callable[[Job], Outcome]
) -> None:
    options = WorkerOptions(runs_in="process", backoff=Fixed(1))
    with pytest.raises(InvalidValue, match="at the top of a module"):
        Worker(bench.bus, bench.queue, handler, options=options)
    with pytest.raises(InvalidValue, match="write `def`"):
        Worker(bench.bus, bench.queue, elsewhere.coroutine, options=options)
    inner = task(bench.queue, runs_in="process")(handler)
    with pytest.raises(InvalidValue, match="at the top of a module"):
        inner.worker(bench.bus)
