"""What a handler does wrong costs its own jobs one failure and nobody else anything; a stop always ends.

The rows that cannot be read, the answers that are no outcomes, the exceptions without a text, the cancellations of the
handler's own, and the handlers that do not let go.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, cast

import pytest

from codemojex.engine.backoff import Fixed
from codemojex.engine.error_text import MAX_TEXT, describe, plain
from codemojex.engine.errors import ScriptDefect
from codemojex.engine.jobs import settlement
from codemojex.engine.jobs.effects import Effect, EffectBody
from codemojex.engine.jobs.jobs import Job
from codemojex.engine.jobs.outcome import Complete, Discard, Outcome, Retry
from codemojex.engine.observer import ignore
from codemojex.engine.transport.connector import Connector
from codemojex.engine.worker.batch_worker import BatchOptions, BatchWorker
from codemojex.engine.worker.in_flight import InFlight
from codemojex.engine.worker.middleware import Work
from codemojex.engine.worker.worker import Worker, WorkerOptions
from tests.engine.bench import Bench, running
from tests.support.waiting import until

FAST = WorkerOptions(concurrency=4, lease_ms=30_000, grace_ms=5_000, max_attempts=1, backoff=Fixed(60_000))
LONE = json.loads('"\\ud83d"')
SAVE = EffectBody("save", "return redis.call('SET', KEYS[1], ARGV[1], 'PX', 60000)")
DEADLINE_S = 15.0


class Mute(Exception):
    """Has no text."""

    def __str__(self) -> str:
        raise RuntimeError("no text")

    __repr__ = __str__


class Ear:
    """Hears what a worker tells."""

    def __init__(self) -> None:
        self.told: list[tuple[str, dict[str, object]]] = []

    def __call__(self, name: str, data: dict[str, object]) -> None:
        self.told.append((name, data))

    def of(self, name: str) -> list[dict[str, object]]:
        return [data for told, data in self.told if told == name]


def working(
    bench: Bench, handler: Any, options: WorkerOptions = FAST, **more: Any
) -> AbstractAsyncContextManager[Worker]:
    return running(Worker(bench.bus, bench.queue, handler, options=options, **more))


async def errors(bench: Bench, ids: Sequence[str]) -> list[str]:
    """What each job died of; '' for one that was completed."""

    async def ended() -> bool:
        rows = [await bench.row(job_id) for job_id in ids]
        return all(row.get("state", "dead") == "dead" for row in rows)

    await until(ended)
    return [(await bench.row(job_id)).get("last_error", "") for job_id in ids]


@pytest.mark.parametrize(("field", "value"), [("timeout_ms", "2s"), ("failures", "x"), ("stalled", "9" * 400)])
async def test_a_row_with_an_unreadable_number_runs_and_costs_no_other_its_claim(
    bench: Bench, field: str, value: str
) -> None:
    ids = await bench.fill([None] * 5)
    await bench.raw("HSET", f"job:{ids[2]}", field, value)
    claimed = await bench.claim(5)
    assert [job.id for job in claimed.jobs] == ids
    assert claimed.unreadable == [ids[2]]
    assert (claimed.jobs[2].failures, claimed.jobs[2].stalled, claimed.jobs[2].timeout_ms) == (0, 0, None)


async def test_a_worker_tells_of_an_unreadable_row_and_works_it(bench: Bench) -> None:
    ids, ear = await bench.fill([None] * 3), Ear()
    await bench.raw("HSET", f"job:{ids[0]}", "timeout_ms", "2s")

    async def handle(job: Job) -> None: ...

    async with working(bench, handle, observe=ear):
        assert await errors(bench, ids) == ["", "", ""]
    assert ear.of("worker.unreadable") == [{"queue": bench.queue, "jobs": [ids[0]]}]


@pytest.mark.parametrize("answer", [False, 0, "", b"", [], True, "done"])
async def test_only_none_and_outcomes_complete_a_job(bench: Bench, answer: object) -> None:
    (job_id,) = await bench.fill([None])

    async def handle(job: Job) -> Any:
        return answer

    async with working(bench, handle):
        (error,) = await errors(bench, [job_id])
    assert "is not an outcome" in error


async def test_a_falsy_answer_of_a_batch_handler_fails_its_member_alone(bench: Bench) -> None:
    ids = await bench.fill([None] * 3)

    async def handle(jobs: Sequence[Job]) -> Mapping[str, Any]:
        return {job.id: False if job.id == ids[1] else None for job in jobs}

    worker = BatchWorker(bench.bus, bench.queue, handle, options=BatchOptions(min_size=3, max_attempts=1))
    async with running(worker):
        found = await errors(bench, ids)
    assert [bool(error) for error in found] == [False, True, False]


@pytest.mark.parametrize(
    "bad",
    [
        Complete(effect=Effect("save", ["elsewhere"])),
        Complete(effect="x"),  # type: ignore[arg-type]  # that is the point
        Retry(Mute()),  # type: ignore[arg-type]
        Discard(Mute()),  # type: ignore[arg-type]
        Retry(LONE),
        Mute(),
    ],
    ids=["another slot", "no effect", "mute retry", "mute discard", "surrogate error", "mute exception"],
)
async def test_what_cannot_be_sent_fails_its_job_alone_and_the_worker_goes_on(bench: Bench, bad: object) -> None:
    ids = await bench.fill([None] * 3)

    async def handle(job: Job) -> Any:
        if job.id != ids[1]:
            return None
        if isinstance(bad, Exception):
            raise bad
        return bad

    async with working(bench, handle, effects=[SAVE], options=FAST):
        found = await errors(bench, ids)
        later = await bench.fill([None])
        assert await errors(bench, later) == [""]
    assert [bool(error) for error in found] == [False, True, False]


@pytest.mark.parametrize("stopping", [False, True], ids=["at work", "at a stop"])
async def test_a_batch_that_cannot_be_sent_is_split(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, stopping: bool
) -> None:
    """The last line of defence: here no check refuses the outcome before it is settled."""
    monkeypatch.setattr(settlement, "check", lambda *_: None)
    ids, begun, go = await bench.fill([None] * 3), list[str](), asyncio.Event()

    async def handle(job: Job) -> Outcome | None:
        begun.append(job.id)
        await go.wait()
        return Complete(effect=Effect("save", [f"x:{{{bench.queue}}}"], [LONE])) if job.id == ids[1] else None

    async with working(bench, handle, effects=[SAVE]) as worker:
        await until(lambda: len(begun) == 3)
        if stopping:
            worker.stop()
        go.set()
        found = await errors(bench, ids)
    assert [bool(error) for error in found] == [False, True, False]
    await bench.sound()


async def test_a_bad_answer_says_what_is_wrong_with_it(bench: Bench) -> None:
    (job_id,) = await bench.fill([None])

    async def handle(job: Job) -> None: ...

    async def forgets(jobs: list[Job], work: Work) -> Any:
        await work(jobs)

    async with working(bench, handle, middleware=[forgets]):
        (error,) = await errors(bench, [job_id])
    assert error == "InvalidValue: a middleware answered no list of outcomes: None"


async def test_a_timed_out_job_names_its_limit_and_a_handlers_own_timeout_does_not(bench: Bench) -> None:
    jobs = [bench.job(b"slow", timeout_ms=20), bench.job(b"own", timeout_ms=60_000)]
    await bench.put(*jobs)

    async def handle(job: Job) -> None:
        if job.payload == b"own":
            raise TimeoutError("theirs")
        await asyncio.Event().wait()

    async with working(bench, handle):
        found = await errors(bench, [job.id for job in jobs])
    assert found == ["TimeoutError: timed out after 20 ms", "TimeoutError: theirs"]


async def test_a_cancellation_of_the_handlers_own_is_a_failure(bench: Bench) -> None:
    (job_id,) = await bench.fill([None])
    calls: list[str] = []

    async def handle(job: Job) -> None:
        calls.append(job.token)
        gone = asyncio.get_running_loop().create_future()
        gone.cancel()
        await gone

    async with working(bench, handle):
        (error,) = await errors(bench, [job_id])
    assert calls == ["1"]
    assert "was cancelled" in error


async def test_a_handler_that_tidies_up_after_the_grace_is_taken_at_its_word(bench: Bench) -> None:
    (job_id,) = await bench.fill([None])
    started, tidied = asyncio.Event(), asyncio.Event()

    async def handle(job: Job) -> Outcome:
        started.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            for _ in range(13):  # longer than a few turns of the loop
                await asyncio.sleep(0.1)
            tidied.set()
        return Complete()

    options = WorkerOptions(grace_ms=10, unwind_ms=30_000)
    async with working(bench, handle, options):
        await started.wait()
    assert tidied.is_set()
    assert await bench.row(job_id) == {}


async def test_a_handler_that_does_not_let_go_is_left_behind_and_its_late_result_changes_nothing(bench: Bench) -> None:
    (job_id,), ear = await bench.fill([None]), Ear()
    started, release, ended = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def handle(job: Job) -> Outcome:
        started.set()
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                continue  # deaf
        ended.set()
        return Complete()

    async with asyncio.timeout(DEADLINE_S):
        async with working(bench, handle, WorkerOptions(grace_ms=10, unwind_ms=30), observe=ear):
            await started.wait()
        (told,) = ear.of("worker.abandoned")
        assert (told["queue"], told["job"]) == (bench.queue, job_id)
        assert str(told["handler"]).endswith("left_behind_and_its_late_result_changes_nothing.<locals>.handle")
        row = await bench.row(job_id)
        assert (row["state"], row.get("failures"), row.get("stalled")) == ("pending", None, None)
        release.set()
        await ended.wait()
    (again,) = await bench.take()
    assert (again.id, again.token) == (job_id, "2")
    await bench.sound()


async def test_cancelling_run_ends_although_a_handler_does_not(bench: Bench) -> None:
    (job_id,) = await bench.fill([None])
    started, release = asyncio.Event(), asyncio.Event()

    async def handle(job: Job) -> None:
        started.set()
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                continue

    worker = Worker(bench.bus, bench.queue, handle, options=WorkerOptions(unwind_ms=30))
    task = asyncio.create_task(worker.run())
    async with asyncio.timeout(DEADLINE_S):
        await started.wait()
        task.cancel()
        await asyncio.wait([task])
    assert task.cancelled()
    release.set()
    assert (await bench.row(job_id))["state"] == "active"


class Odd(BaseException):
    """Of a handler's own, and no Exception."""


@pytest.mark.parametrize("kind", [GeneratorExit, Odd])
async def test_an_exception_that_is_no_exception_is_a_failure_too(bench: Bench, kind: type[BaseException]) -> None:
    ids = await bench.fill([None] * 3)

    async def handle(job: Job) -> None:
        if job.id == ids[1]:
            raise kind("odd")

    async with working(bench, handle):
        assert await errors(bench, ids) == ["", f"{kind.__name__}: odd", ""]
        later = await bench.fill([None])
        assert await errors(bench, later) == [""]


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit])
def test_an_end_of_the_program_passes_through_and_is_no_failure(kind: type[BaseException]) -> None:
    ended: list[object] = []

    async def work(jobs: list[Job]) -> Sequence[Outcome | None]:
        raise kind

    async def main() -> None:
        hands = InFlight(
            cast("Connector", None),
            "q",
            work,
            handler="work",
            lease_ms=1_000,
            effects=(),
            observe=ignore,
            finish=lambda job_id, token, outcome: ended.append(outcome),
            changed=asyncio.Event(),
        )
        hands.take([Job("JOB00000000000", b"", "1", None, 0, 0, "q", 0)])
        hands.start(1)
        await asyncio.Event().wait()

    with pytest.raises(kind):
        asyncio.run(main())
    assert not ended


async def test_an_effect_that_does_not_compile_ends_the_worker_and_says_so(bench: Bench) -> None:
    (job_id,) = await bench.fill([None])

    async def handle(job: Job) -> None: ...

    bad = EffectBody("bad", "syntax error((")
    with pytest.raises(ExceptionGroup) as fault:
        async with asyncio.timeout(DEADLINE_S):
            await Worker(bench.bus, bench.queue, handle, effects=[bad]).run()
    (defect,) = fault.value.exceptions
    assert isinstance(defect, ScriptDefect)
    assert "compil" in str(defect)
    assert (await bench.row(job_id))["state"] == "pending"


async def test_an_observer_that_raises_inside_a_handlers_task_ends_the_worker(bench: Bench) -> None:
    await bench.fill([None])

    async def handle(job: Job) -> None:
        raise ValueError

    def observe(name: str, data: dict[str, object]) -> None:
        if name == "worker.failed":
            raise LookupError("the observer")

    with pytest.raises(ExceptionGroup) as fault:
        async with asyncio.timeout(DEADLINE_S):
            await Worker(bench.bus, bench.queue, handle, observe=observe).run()
    assert fault.group_contains(LookupError)


def test_a_text_of_anything_can_be_kept() -> None:
    assert plain(Mute()) == "<Mute without a text: RuntimeError>"
    assert plain(LONE) == "\\ud83d"
    assert len(plain(LONE * 5_000)) == MAX_TEXT
    assert describe(TimeoutError()) == "TimeoutError"
    assert describe(ValueError("no luck")) == "ValueError: no luck"
    assert len(describe(ValueError("x" * 5_000))) == MAX_TEXT
