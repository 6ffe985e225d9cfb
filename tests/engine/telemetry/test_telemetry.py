"""Listeners hear what happens under the protocol's names; nobody pays for listeners that are not there."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from codemojex.engine.backoff import Fixed
from codemojex.engine.errors import InvalidValue
from codemojex.engine.jobs.jobs import Job
from codemojex.engine.jobs.outcome import Complete, Discard, Outcome, Retry
from codemojex.engine.lanes import limits
from codemojex.engine.telemetry.telemetry import EVENTS, Telemetry
from codemojex.engine.worker.middleware import Work, wrap
from codemojex.engine.worker.worker import Worker, WorkerOptions
from tests.engine.bench import Bench, lane

FAST = WorkerOptions(concurrency=4, lease_ms=600, grace_ms=1_000, backoff=Fixed(60_000))
JOB = Job("JOB00000000001", b"", "1", None, 2, 0, "q", 0)


class Ear:
    def __init__(self) -> None:
        self.heard: list[tuple[str, dict[str, float], dict[str, object]]] = []

    def __call__(self, event: str, measurements: Any, metadata: Any) -> None:
        self.heard.append((event, dict(measurements), dict(metadata)))

    def names(self) -> list[str]:
        return [event for event, _, _ in self.heard]


async def work(bench: Bench, outcome: Callable[[Job], Outcome | None], count: int, **more: Any) -> None:
    """Let a worker settle `count` jobs."""
    done = asyncio.Event()
    settled = 0
    tell = more.pop("observe", lambda name, data: None)

    def observe(name: str, data: dict[str, object]) -> None:
        nonlocal settled
        settled += name == "worker.settled"
        tell(name, data)
        if settled == count:
            done.set()

    async def handle(job: Job) -> Outcome | None:
        return outcome(job)

    worker = Worker(bench.bus, bench.queue, handle, options=FAST, observe=observe, **more)
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(worker.run())
        await asyncio.wait_for(done.wait(), 5)
        worker.stop()


async def test_an_attached_listener_hears_a_jobs_life_and_the_workers(bench: Bench) -> None:
    telemetry, ear = Telemetry(), Ear()
    telemetry.attach(ear)
    (job_id,) = await bench.fill([lane(1)])
    await work(bench, lambda job: None, 1, observe=telemetry.observe, middleware=[telemetry.middleware])
    assert ear.names() == ["emq.worker.start", "emq.job.start", "emq.job.complete", "emq.worker.stop"]
    _, measured, about = ear.heard[2]
    assert measured["duration"] >= 0
    assert (about["queue"], about["job_id"], about["lane"]) == (bench.queue, job_id, lane(1))
    assert ear.heard[0][1] == {"concurrency": 4}


async def test_failures_tell_the_error_and_retries_the_attempt_and_the_delay() -> None:
    telemetry, ear = Telemetry(), Ear()
    telemetry.attach(ear, "emq.job.fail", "emq.job.retry", "emq.job.complete")

    async def answer(jobs: list[Job]) -> Sequence[Outcome | None]:
        return [Retry("later", 50), Discard("never"), None]

    await telemetry.middleware([JOB, JOB, JOB], answer)
    assert ear.names() == ["emq.job.fail", "emq.job.retry", "emq.job.fail", "emq.job.complete"]
    assert ear.heard[1][1] == {"attempt": 3, "delay": 50}
    assert [about.get("error") for _, _, about in ear.heard] == ["later", None, "never", None]

    async def fail(jobs: list[Job]) -> Sequence[Outcome | None]:
        raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        await telemetry.middleware([JOB], fail)
    assert isinstance(ear.heard[-1][2]["error"], ValueError)


async def test_a_spent_budget_is_told(bench: Bench) -> None:
    telemetry, ear = Telemetry(), Ear()
    telemetry.attach(ear, "emq.rate_limit.hit")
    await limits.set_rate(bench.bus, bench.queue, 1, 60_000)
    await bench.fill([None, None])
    await work(bench, lambda job: None, 1, observe=telemetry.observe)
    assert ear.heard
    assert 0 < ear.heard[0][1]["delay"] <= 60_000


def test_without_listeners_everything_is_silent() -> None:
    failures: list[str] = []
    telemetry = Telemetry(lambda event, error: failures.append(event))
    for event in EVENTS:
        telemetry.emit(event, {}, {})
    telemetry.job_add("q", "JOB", 1)
    telemetry.observe("worker.started", {})
    with telemetry.span("mine", {}):
        pass
    assert failures == []
    with pytest.raises(KeyError), telemetry.span("mine", {}):
        raise KeyError


def test_a_detached_listener_hears_nothing_more() -> None:
    telemetry, ear = Telemetry(), Ear()
    detach = telemetry.attach(ear)
    telemetry.job_add("q", "j", 3)
    detach()
    detach()
    telemetry.job_add("q", "j", 4)
    assert ear.heard == [("emq.job.add", {"queue_time": 3}, {"queue": "q", "job_id": "j"})]


def test_a_listener_that_raises_is_detached_and_harms_nobody() -> None:
    failures: list[str] = []
    telemetry, ear = Telemetry(lambda event, error: failures.append(f"{event} {error}")), Ear()

    def bad(event: str, measurements: object, metadata: object) -> None:
        raise ValueError("no")

    telemetry.attach(bad)
    telemetry.attach(ear)
    telemetry.job_add("q", "j", 3)
    telemetry.job_add("q", "j", 4)
    assert len(ear.heard) == 2
    assert failures == ["emq.job.add no"]


def test_a_span_tells_start_and_stop_or_exception() -> None:
    telemetry, ear = Telemetry(), Ear()
    telemetry.attach(ear, "mine.start", "mine.stop", "mine.exception")
    with telemetry.span("mine", {"a": 1}):
        pass
    with pytest.raises(KeyError), telemetry.span("mine", {}):
        raise KeyError
    assert ear.names() == ["mine.start", "mine.stop", "mine.start", "mine.exception"]


def test_a_misspelt_event_is_refused() -> None:
    with pytest.raises(InvalidValue, match=r"emq\.job\.complete"):
        Telemetry().attach(Ear(), "emq.job.completed")


def test_connector_events_pass_under_their_names() -> None:
    telemetry, ear = Telemetry(), Ear()
    telemetry.attach(ear)
    telemetry.observe("connector.overload", {"pending": 7, "label": "a"})
    telemetry.observe("connector.unheard", {})
    assert ear.heard == [("emq.connector.overload", {"pending": 7}, {"label": "a"})]


async def test_middleware_surrounds_the_handler_the_first_outermost() -> None:
    order: list[str] = []

    def layer(name: str) -> Any:
        async def around(jobs: list[Job], rest: Work) -> Sequence[Outcome | None]:
            order.append(f"{name} in")
            outcomes = await rest(jobs)
            order.append(f"{name} out")
            return outcomes

        return around

    async def core(jobs: list[Job]) -> Sequence[Outcome | None]:
        order.append("work")
        return [Complete()]

    assert await wrap(core, [layer("a"), layer("b")])([JOB]) == [Complete()]
    assert order == ["a in", "b in", "work", "b out", "a out"]


@pytest.mark.parametrize("batch", [False, True])
async def test_a_middleware_may_answer_in_the_handlers_stead_and_its_failure_is_the_jobs(
    bench: Bench, batch: bool
) -> None:
    first, second = await bench.fill([None, None])

    async def gate(jobs: list[Job], rest: Work) -> Sequence[Outcome | None]:
        if any(job.id == second for job in jobs) and not batch:
            raise PermissionError("closed")
        return [Discard("answered by the gate")] * len(jobs)

    settled: list[object] = []
    done = asyncio.Event()

    def observe(name: str, data: dict[str, object]) -> None:
        if name == "worker.settled":
            settled.append(data["job"])
            if len(settled) == 2:
                done.set()

    async def never(job: Job) -> Outcome | None:
        raise AssertionError

    async def never_many(jobs: list[Job]) -> Sequence[Outcome | None]:
        raise AssertionError

    handlers: dict[str, Any] = {"batch_handler": never_many} if batch else {"handler": never}
    worker = Worker(bench.bus, bench.queue, options=FAST, observe=observe, middleware=[gate], **handlers)
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(worker.run())
        await asyncio.wait_for(done.wait(), 5)
        worker.stop()
    assert (await bench.row(first))["last_error"] == "answered by the gate"
    expected = "answered by the gate" if batch else "PermissionError: closed"
    assert (await bench.row(second))["last_error"] == expected
