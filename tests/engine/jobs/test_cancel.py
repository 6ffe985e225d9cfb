"""Cancellation: a token says why, a request finds the job wherever it is, and completion in time wins."""

from __future__ import annotations

import asyncio

import pytest

from codemojex.engine.errors import InvalidValue, WorkCancelled
from codemojex.engine.flows import flows
from codemojex.engine.inspection import admin
from codemojex.engine.jobs import cancel, pubsub
from codemojex.engine.jobs.cancel import Answer, CancelToken
from codemojex.engine.jobs.jobs import Dedup, Job
from codemojex.engine.jobs.outcome import Complete, Outcome
from codemojex.engine.maintenance import recovery
from codemojex.engine.worker.worker import Worker, WorkerOptions
from tests.engine.bench import Bench, lane, running
from tests.engine.flow_bench import add, held, node
from tests.support.waiting import until

RENEWING = WorkerOptions(lease_ms=300)
HEARING = WorkerOptions(lease_ms=60_000, hear_cancels=True)


async def ask(bench: Bench, job_id: str, reason: str = "no need") -> Answer:
    return await cancel.request(bench.bus, bench.queue, job_id, reason)


async def in_state(bench: Bench, job_id: str, wanted: str) -> bool:
    return await admin.get_job_state(bench.bus, bench.queue, job_id) == wanted


# tokens


def test_a_token_says_whether_and_why_and_its_raising_form_raises() -> None:
    token = CancelToken()
    assert token.check() is None
    token.require()
    token.cancel("first")
    token.cancel("second")
    assert (token.check(), token.check()) == ("first", "first"), "looking consumes nothing"
    with pytest.raises(WorkCancelled, match="first") as caught:
        token.require()
    assert caught.value.reason == "first"


def test_outside_of_a_worker_a_job_has_a_token_that_nobody_cancels() -> None:
    job = Job("JOB00000000000", b"", "1", None, 0, 0, "q", 0)
    assert cancel.token_of(job).check() is None


# jobs that wait


@pytest.mark.parametrize("where", ["flat", "lane", "scheduled", "parent"])
async def test_a_waiting_job_ends_at_once(bench: Bench, where: str) -> None:
    if where == "parent":
        job_id = (await add(bench, node(bench, node(bench)))).id
    else:
        job = bench.job(lane=None if where == "flat" else lane(1), delay_ms=60_000 if where == "scheduled" else 0)
        await bench.put(job)
        job_id = job.id
    assert await ask(bench, job_id) == Answer.CANCELLED
    row = await bench.row(job_id)
    assert (row["state"], row["last_error"], "cancel" in row) == ("dead", "cancelled: no need", False)
    assert await ask(bench, job_id) == Answer.DEAD
    assert await ask(bench, bench.id()) == Answer.GONE
    assert await bench.ring() == []
    await bench.sound()


async def test_a_cancelled_job_that_waits_frees_the_key_that_its_claim_would_have_freed(bench: Bench) -> None:
    job = bench.job(dedup=Dedup("k", 60_000, "claim"))
    await bench.put(job)
    await ask(bench, job.id)
    assert await admin.get_dedup(bench.bus, bench.queue, "k") is None


async def test_a_reason_is_required_and_bounded(bench: Bench) -> None:
    for reason in ("", "x" * 501):
        with pytest.raises(InvalidValue):
            await ask(bench, bench.id(), reason)


# jobs in flight


class Sleeper:
    """A handler that sleeps until it is cancelled, and writes down what it was told."""

    def __init__(self) -> None:
        self.started = asyncio.Event()
        self.told: list[object] = []

    async def __call__(self, job: Job) -> Outcome | None:
        self.started.set()
        try:
            await asyncio.sleep(30)
        except asyncio.CancelledError as error:
            self.told += [*error.args, cancel.token_of(job).check()]
            raise
        return None


@pytest.mark.parametrize("options", [RENEWING, HEARING], ids=["renewal", "event"])
async def test_the_worker_that_holds_a_job_tells_its_handler_and_the_job_dies(
    bench: Bench, options: WorkerOptions
) -> None:
    handler, observed = Sleeper(), list[tuple[str, dict[str, object]]]()
    (job_id,) = await bench.fill([lane(1)])
    worker = Worker(
        bench.bus, bench.queue, handler, options=options, observe=lambda name, data: observed.append((name, data))
    )
    async with running(worker):
        await handler.started.wait()
        if options is HEARING:
            await until(lambda: _heard(bench))
        assert await ask(bench, job_id) == Answer.ASKED
        await until(lambda: in_state(bench, job_id, "dead"))
    assert handler.told == ["cancelled: no need", "no need"]
    assert (await bench.row(job_id))["last_error"] == "cancelled: no need"
    assert ("worker.cancelled", {"queue": bench.queue, "job": job_id, "reason": "no need"}) in observed
    await bench.sound()


async def _heard(bench: Bench) -> bool:
    return (await bench.bus.execute("PUBSUB", "NUMSUB", bench.space.events()))[1] > 0


async def test_a_request_for_a_job_in_flight_byte_by_byte(bench: Bench) -> None:
    await bench.fill([None])
    (job,) = await bench.take()
    async with pubsub.subscribe(bench.bus, bench.queue) as heard:
        await ask(bench, job.id)
        event = await anext(heard)
    assert event.raw == f'{{"event":"cancel","job":"{job.id}","reason":"no need"}}'.encode()
    assert (await bench.row(job.id))["cancel"] == "no need"


async def test_of_several_requests_the_first_one_stays(bench: Bench) -> None:
    await bench.fill([None])
    (job,) = await bench.take()
    async with pubsub.subscribe(bench.bus, bench.queue) as heard:
        assert [await ask(bench, job.id, reason) for reason in ("first", "second")] == [Answer.ASKED] * 2
        await pubsub.publish(bench.bus, bench.queue, "end", job.id)
        reasons = [(await anext(heard)).raw, (await anext(heard)).raw]
    assert b'"first"' in reasons[0]
    assert b'"end"' in reasons[1]
    assert (await bench.row(job.id))["cancel"] == "first"


async def test_a_handler_may_answer_a_cancellation_itself(bench: Bench) -> None:
    started = asyncio.Event()

    async def handle(job: Job) -> Outcome:
        started.set()
        try:
            await asyncio.sleep(30)
        except asyncio.CancelledError:
            return Complete(b"as far as I came")
        return Complete()

    (job_id,) = await bench.fill([None])
    async with running(Worker(bench.bus, bench.queue, handle, options=RENEWING)):
        await started.wait()
        await ask(bench, job_id)
        await until(lambda: in_state(bench, job_id, "absent"))
    assert await bench.raw("HGET", "metrics:completed", "count") == b"1"


async def test_a_batch_is_told_job_by_job_and_cut_only_when_nobody_wants_any_of_it(bench: Bench) -> None:
    told: list[list[str | None]] = []
    started, cut = asyncio.Event(), asyncio.Event()

    async def handle(jobs: list[Job]) -> list[Outcome | None]:
        started.set()
        try:
            await until(lambda: any(cancel.token_of(job).check() for job in jobs))
            told.append([cancel.token_of(job).check() for job in jobs])
            await asyncio.sleep(30)
        except asyncio.CancelledError:
            cut.set()
            raise
        return [None] * len(jobs)

    one, two = await bench.fill([None, None])
    async with running(Worker(bench.bus, bench.queue, batch_handler=handle, options=RENEWING)):
        await started.wait()
        await ask(bench, one, "first")
        await until(lambda: told)
        assert told == [["first", None]]
        assert not cut.is_set()
        await ask(bench, two, "second")
        await until(lambda: in_state(bench, two, "dead"))
    errors = [(await bench.row(job_id))["last_error"] for job_id in (one, two)]
    assert errors == ["cancelled: first", "cancelled: second"]


async def test_the_raising_form_in_a_handler_ends_the_job_without_a_retry(bench: Bench) -> None:
    async def handle(job: Job) -> None:
        token = CancelToken()
        token.cancel("enough")
        token.require()

    (job_id,) = await bench.fill([None])
    async with running(Worker(bench.bus, bench.queue, handle)):
        await until(lambda: in_state(bench, job_id, "dead"))
    row = await bench.row(job_id)
    assert (row["last_error"], "failures" in row) == ("cancelled: enough", False)


async def test_a_completion_in_time_wins(bench: Bench) -> None:
    await bench.fill([None])
    (job,) = await bench.take()
    assert await ask(bench, job.id) == Answer.ASKED
    await bench.settle(job)
    assert await ask(bench, job.id) == Answer.GONE


async def test_a_request_outlives_the_worker_and_ends_the_job_at_its_next_claim(bench: Bench) -> None:
    flow = node(bench, node(bench, lane=lane(1)), lane=lane(1))
    parent, child = (await add(bench, flow)).id, flow.children[0].job.id
    job = await held(bench, child)
    await ask(bench, child)
    await bench.lapse(job)
    await recovery.recover(bench.bus, bench.queue)
    assert not (await bench.claim(5)).jobs
    assert (await bench.row(child))["last_error"] == "cancelled: no need"
    assert await flows.failures(bench.bus, bench.queue, parent) == {child: "cancelled: no need"}
    await bench.sound()
    await admin.reprocess(bench.bus, bench.queue, child)
    assert (await bench.take())[0].id == child, "another life begins without the request"


async def test_a_stopping_worker_gives_back_what_nobody_cancelled(bench: Bench) -> None:
    handler = Sleeper()
    (job_id,) = await bench.fill([None])
    async with running(Worker(bench.bus, bench.queue, handler, options=WorkerOptions(grace_ms=0))):
        await handler.started.wait()
    assert (await bench.row(job_id))["state"] == "pending"
    assert handler.told == ["the worker stops", None]
