"""Batches are shaped by size and time, answered per member, and sorted without a remainder."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codemojex.engine.backoff import Fixed
from codemojex.engine.errors import InvalidValue, StaleToken
from codemojex.engine.jobs import cancel, claims, pubsub, settlement
from codemojex.engine.jobs.jobs import Job
from codemojex.engine.jobs.outcome import Complete, Delay, Discard, Outcome, Retry
from codemojex.engine.jobs.settlement import EffectFailure, Gone, Settled, Stale
from codemojex.engine.lanes import lanes
from codemojex.engine.transport.connector import Connector
from codemojex.engine.worker.batch_shape import Shaper
from codemojex.engine.worker.batch_worker import BatchOptions, BatchWorker, Partition, partition
from tests.engine.bench import LEASE, Bench, lane, running
from tests.support.waiting import until

FAST = BatchOptions(min_size=3, timeout_ms=150, lease_ms=600, grace_ms=100, backoff=Fixed(60_000))


class Book:
    """A handler that writes its batches down and answers what it was told to."""

    def __init__(self, answer: Callable[[Job], Outcome | None] = lambda job: None) -> None:
        self.batches: list[list[Job]] = []
        self.parts: list[Partition] = []
        self._answer = answer

    async def __call__(self, jobs: Sequence[Job]) -> Mapping[str, Outcome | None]:
        self.batches.append(list(jobs))
        return {job.id: self._answer(job) for job in jobs}


def working(bench: Bench, handler: Any, **more: Any) -> AbstractAsyncContextManager[BatchWorker]:
    return running(BatchWorker(bench.bus, bench.queue, handler, **{"options": FAST, **more}))


def test_a_full_floor_flushes_the_whole_depth_at_once() -> None:
    shaper = Shaper(4, 1_000, 500)
    assert [shaper.size(depth, 0) for depth in (0, 3, 4)] == [0, 0, 4]
    assert shaper.size(9, 1) == 9


def test_below_the_floor_only_the_timeout_flushes_counted_from_the_first_waiting_job() -> None:
    shaper = Shaper(4, 1_000, 500)
    assert [shaper.size(0, t) for t in (0, 5_000)] == [0, 0]
    assert [shaper.size(2, t) for t in (5_000, 5_999, 6_000)] == [0, 0, 2]
    assert [shaper.size(2, t) for t in (6_001, 7_000, 7_001)] == [0, 0, 2]


def test_an_empty_backlog_never_flushes_and_closes_the_window() -> None:
    shaper = Shaper(4, 1_000, 500)
    assert [shaper.size(d, t) for d, t in ((1, 0), (0, 900), (1, 1_100), (1, 2_099), (1, 2_100))] == [0, 0, 0, 0, 1]


def test_a_batch_is_no_larger_than_asked_for() -> None:
    assert Shaper(2, 1_000, 5).size(40, 0) == 5


@pytest.mark.parametrize(
    "options",
    [
        {"min_size": 0},
        {"min_size": 9, "max_size": 8},
        {"max_size": 501},
        {"timeout_ms": 0},
        {"beat_ms": 0},
        {"grace_ms": -1},
        {"lease_ms": 0},
    ],
)
def test_options_that_mean_nothing_are_refused(options: dict[str, int]) -> None:
    with pytest.raises(InvalidValue):
        BatchOptions(**options)


async def test_a_batch_below_the_floor_goes_at_the_timeout_and_not_before(bench: Bench) -> None:
    book = Book()
    async with working(bench, book):
        started = time.monotonic()
        ids = await bench.fill([None, None])
        await until(lambda: book.batches)
        assert time.monotonic() - started >= 0.1
    assert [job.id for job in book.batches[0]] == ids
    assert not [key for key in await bench.keys() if key.startswith("job:")]


async def test_a_batch_that_reaches_the_floor_does_not_wait_for_the_timeout(bench: Bench) -> None:
    book = Book()
    async with working(bench, book, options=BatchOptions(min_size=3, timeout_ms=600_000)):
        await bench.fill([None] * 4)
        await until(lambda: book.batches)
    assert len(book.batches[0]) == 4


async def test_every_member_has_its_own_verdict_and_a_missing_one_is_retried(bench: Bench) -> None:
    ids = await bench.fill([None] * 5)
    outcomes: list[Outcome | None] = [None, Retry("no"), Delay(60_000), Discard("never")]
    parts: list[Partition] = []

    async def handle(jobs: Sequence[Job]) -> Mapping[str, Outcome | None]:
        return dict(zip(ids, outcomes, strict=False))

    async with working(bench, handle, on_settled=parts.append):
        await until(lambda: parts)
    assert parts == [Partition((ids[0],), (ids[1], ids[4]), (ids[3],), (ids[2],))]
    assert (await bench.row(ids[4]))["last_error"] == "missing verdict"
    rows = [await bench.row(job_id) for job_id in ids]
    assert [row.get("state") for row in rows] == [None, "scheduled", "scheduled", "dead", "scheduled"]
    assert [row.get("failures") for row in rows] == [None, "1", None, None, "1"]
    await bench.sound()


@pytest.mark.parametrize("answer", [ValueError("broken"), None, [None], {"x": "done"}])
async def test_a_handler_that_raises_or_answers_nonsense_has_its_whole_batch_retried(
    bench: Bench, answer: object
) -> None:
    ids = await bench.fill([None] * 3)

    async def handle(jobs: Sequence[Job]) -> Any:
        if isinstance(answer, Exception):
            raise answer
        return {jobs[0].id: "done"} if isinstance(answer, dict) else answer

    parts: list[Partition] = []
    async with working(bench, handle, on_settled=parts.append):
        await until(lambda: parts)
    assert parts == [Partition(retried=tuple(ids))]
    assert [(await bench.row(i))["failures"] for i in ids] == ["1", "1", "1"]


async def test_a_listener_that_raises_does_not_stop_the_loop(bench: Bench) -> None:
    book = Book()

    def fail(parts: Partition) -> None:
        raise ValueError

    async with working(bench, book, on_settled=fail):
        for count in (1, 2):
            await bench.fill([None] * 3)
            await until(lambda count=count: len(book.batches) == count)


async def test_leases_are_renewed_while_the_handler_works(bench: Bench) -> None:
    await bench.fill([None] * 3)
    parts: list[Partition] = []

    async def handle(jobs: Sequence[Job]) -> Mapping[str, Outcome | None]:
        first = await bench.raw("ZSCORE", "active", jobs[-1].id)

        async def renewed() -> bool:
            return await bench.raw("ZSCORE", "active", jobs[-1].id) > first

        await until(renewed)
        return {job.id: None for job in jobs}

    slow = BatchOptions(min_size=3, lease_ms=600, grace_ms=1_000)
    async with working(bench, handle, options=slow, on_settled=parts.append):
        await until(lambda: parts)
    assert len(parts[0].completed) == 3


async def test_a_stop_gives_a_batch_back_that_does_not_end_within_the_grace(bench: Bench) -> None:
    ids = await bench.fill([None] * 3)
    started = asyncio.Event()

    async def handle(jobs: Sequence[Job]) -> Mapping[str, Outcome | None]:
        started.set()
        await asyncio.sleep(60)
        return {}

    async with working(bench, handle) as worker:
        await asyncio.wait_for(started.wait(), 5)
        worker.stop()
    assert [(await bench.row(i))["state"] for i in ids] == ["pending"] * 3
    assert "failures" not in await bench.row(ids[0])
    await bench.sound()


async def test_a_batch_takes_lanes_in_turn_and_flat_jobs_with_them(bench: Bench) -> None:
    await bench.fill([lane(1)] * 40)
    light = await bench.fill([lane(2), lane(3), None])
    book = Book()
    async with working(bench, book, options=BatchOptions(min_size=6, max_size=6, timeout_ms=600_000)):
        await until(lambda: book.batches)
    assert {job.id for job in book.batches[0]} > set(light)
    await bench.sound()


async def test_a_lanes_ceiling_holds_inside_a_batch(bench: Bench) -> None:
    await lanes.limit(bench.bus, bench.queue, lane(1), 2)
    await bench.fill([lane(1)] * 5)
    book = Book()
    async with working(bench, book):
        await until(lambda: sum(map(len, book.batches)) == 5)
    assert [len(batch) for batch in book.batches] == [2, 2, 1]


async def test_members_come_one_by_one_until_the_floor_however_they_come(bench: Bench) -> None:
    book, told = Book(), list[str]()
    options = BatchOptions(min_size=3, timeout_ms=600_000, beat_ms=600_000)
    async with working(bench, book, options=options, observe=lambda name, _: told.append(name)):
        for count, name in enumerate((lane(1), lane(1)), 1):
            await bench.fill([name])
            await until(lambda count=count: _in_flight(bench, count))
        assert not book.batches
        await bench.fill([None])
        await until(lambda: book.batches)
    assert len(book.batches[0]) == 3
    assert told.count("worker.claimed") == 3


async def test_an_idle_batch_worker_asks_nothing_and_still_wakes_within_a_round_trip(
    valkey_url: str, bench: Bench
) -> None:
    asked: list[str] = []
    bus = await Connector.connect(valkey_url, observe=lambda name, _: asked.append(name))
    book = Book()
    options = BatchOptions(min_size=1, beat_ms=600_000, pump=False)
    worker = BatchWorker(bus, bench.queue, book, options=options)
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(worker.run())
        await until(lambda: asked.count("connector.connection") >= 2)  # one waits for a wake token
        asked.clear()
        await asyncio.sleep(0.2)
        assert not asked
        await bench.fill([None])
        await until(lambda: book.batches)
        worker.stop()
    await bus.close()


async def test_members_that_wait_are_given_back_at_a_stop_and_charged_nothing(bench: Bench) -> None:
    book = Book()
    options = BatchOptions(min_size=3, timeout_ms=600_000)
    async with working(bench, book, options=options) as worker:
        ids = await bench.fill([None, lane(1)])
        await until(lambda: _in_flight(bench, 2))
        worker.stop()
    rows = [await bench.row(job_id) for job_id in ids]
    assert [row["state"] for row in rows] == ["pending"] * 2
    assert not any(field in row for row in rows for field in ("failures", "stalled"))
    assert not book.batches
    await bench.sound()


async def test_the_leases_of_members_that_wait_are_renewed(bench: Bench) -> None:
    options = BatchOptions(min_size=3, timeout_ms=600_000, lease_ms=600)
    async with working(bench, Book(), options=options):
        (job_id, _) = await bench.fill([None, None])
        await until(lambda: _in_flight(bench, 2))
        first = float(await bench.raw("ZSCORE", "active", job_id))

        async def renewed() -> bool:
            return float(await bench.raw("ZSCORE", "active", job_id)) > first

        await until(renewed)


async def test_a_member_that_is_cancelled_while_it_waits_is_dead_and_never_handed_over(bench: Bench) -> None:
    book = Book()
    options = BatchOptions(min_size=3, timeout_ms=600_000, lease_ms=600)
    async with working(bench, book, options=options):
        first, *_ = await bench.fill([None, None])
        await until(lambda: _in_flight(bench, 2))
        await cancel.request(bench.bus, bench.queue, first, "enough")
        await until(lambda: _in_flight(bench, 1))
        await bench.fill([None, None])
        await until(lambda: book.batches)
    assert first not in {job.id for job in book.batches[0]}
    assert (await bench.row(first))["state"] == "dead"


async def test_a_batch_worker_tells_and_publishes_what_a_worker_does(bench: Bench) -> None:
    told: list[tuple[str, dict[str, object]]] = []
    heard: list[tuple[str, str]] = []
    ids = await bench.fill([None] * 3)
    answers = dict(zip(ids, [None, Discard("no"), Delay(60_000)], strict=True))

    async def handle(jobs: Sequence[Job]) -> Mapping[str, Outcome | None]:
        return answers

    options = BatchOptions(min_size=3, publish=True)
    async with (
        pubsub.subscribe(bench.bus, bench.queue) as listening,
        working(bench, handle, options=options, observe=lambda name, data: told.append((name, data))),
    ):
        async for event in listening:
            heard.append((event.job, event.name))
            if len(heard) == 3:
                break
    assert dict(heard) == dict(zip(ids, ["completed", "failed", "delayed"], strict=True))
    names = [name for name, _ in told]
    assert names[0] == "worker.started"
    assert names.count("worker.settled") == 3
    assert names[-1] == "worker.stopped"
    (settled,) = [data for name, data in told if name == "batch.settled"]
    assert settled == {
        "queue": bench.queue, "completed": [ids[0]], "retried": [], "dead": [ids[1]], "delayed": [ids[2]],
    }  # fmt: skip


async def _in_flight(bench: Bench, count: int) -> bool:
    return await bench.raw("ZCARD", "active") == count


async def test_a_claimed_batch_is_the_oldest_under_one_deadline(bench: Bench) -> None:
    ids = await bench.fill([None] * 8)
    batch = await claims.claim_batch(bench.bus, bench.queue, 4, LEASE)
    assert [job.id for job in batch] == sorted(ids)[:4]
    assert {job.token for job in batch} == {"1"}
    scores = await bench.raw("ZRANGE", "active", 0, -1, "WITHSCORES")
    assert len({score for _, score in scores}) == 1
    assert len(await claims.claim_batch(bench.bus, bench.queue, 100, LEASE)) == 4
    assert await claims.claim_batch(bench.bus, bench.queue, 100, LEASE) == []


async def test_a_delay_keeps_the_failures_and_the_next_claim_has_the_next_token(bench: Bench) -> None:
    (job_id,) = await bench.fill([None])
    (job,) = await claims.claim_batch(bench.bus, bench.queue, 1, LEASE)
    await settlement.delay(bench.bus, bench.queue, job_id, job.token, 60_000)
    assert await bench.raw("ZCARD", "active") == 0
    await bench.due(job_id)
    (again,) = (await bench.claim()).jobs
    assert (again.token, again.failures) == ("2", 0)
    with pytest.raises(StaleToken):
        await settlement.delay(bench.bus, bench.queue, job_id, job.token, 5)
    assert await bench.raw("ZCARD", "active") == 1
    assert await settlement.delay(bench.bus, bench.queue, bench.id(), "1", 5) == Gone()


_outcomes = st.sampled_from([None, Complete(), Retry("x"), Delay(1), Discard("x")])
_verdicts = st.sampled_from(
    [None, Stale(), Gone(), EffectFailure("x"), *(Settled(s) for s in ("completed", "scheduled", "dead", "pending"))]  # type: ignore[arg-type]
)


@given(
    st.lists(st.sampled_from("abcdefgh")), st.dictionaries(st.sampled_from("abcdefgh"), st.tuples(_outcomes, _verdicts))
)
def test_a_partition_is_exhaustive_and_disjoint_in_input_order(ids: list[str], verdicts: dict[str, Any]) -> None:
    parts = partition(ids, verdicts)
    members = [parts.completed, parts.retried, parts.dead, parts.delayed]
    assert sorted(i for part in members for i in part) == sorted(set(ids))
    for part in members:
        assert list(part) == [i for i in dict.fromkeys(ids) if i in part]


def test_the_partition_follows_the_settlement_and_not_the_wish() -> None:
    verdicts = {
        "a": (None, Settled("completed")),
        "b": (Complete(), Stale()),
        "c": (Retry("x"), Settled("dead")),
        "d": (Retry("x"), Settled("scheduled")),
        "e": (Delay(1), Settled("scheduled")),
        "f": (Delay(1), Gone()),
        "g": (Discard("x"), Settled("dead")),
    }
    assert partition("abcdefgh", verdicts) == Partition(("a",), ("b", "d", "f", "h"), ("c", "g"), ("e",))
