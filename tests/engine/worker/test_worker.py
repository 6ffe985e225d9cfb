"""A worker lives: it wakes at once, renews, retries, gives back, and no bad job stops it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

import pytest

from codemojex.engine import keyspace
from codemojex.engine.backoff import Fixed
from codemojex.engine.errors import InvalidValue
from codemojex.engine.ids import Minter
from codemojex.engine.inspection.audit import audit
from codemojex.engine.jobs import claims, jobs, settlement
from codemojex.engine.jobs.effects import Effect, EffectBody
from codemojex.engine.jobs.jobs import Job, NewJob
from codemojex.engine.jobs.outcome import Complete, Delay, Discard, Outcome, Park, Retry
from codemojex.engine.lanes import limits
from codemojex.engine.transport.connector import Connector
from codemojex.engine.worker.worker import Worker, WorkerOptions
from tests.engine.bench import running
from tests.support.waiting import until

FAST = WorkerOptions(concurrency=4, lease_ms=600, grace_ms=1_000, backoff=Fixed(10))


class Book:
    """Handlers that write down what they were given."""

    def __init__(self, outcome: Callable[[Job], Outcome | None] = lambda job: None) -> None:
        self.seen: list[Job] = []
        self._outcome = outcome

    async def __call__(self, job: Job) -> Outcome | None:
        self.seen.append(job)
        return self._outcome(job)


mint = Minter(3)


async def state(bus: Connector, queue: str, job_id: str) -> str | None:
    found = await bus.execute("HGET", keyspace.of(queue).row(job_id), "state")
    return found.decode() if found else None


async def admit(bus: Connector, queue: str, count: int = 1, lane: str | None = None, **more: object) -> list[str]:
    new = [NewJob(mint.mint("JOB"), b"x", lane, **more) for _ in range(count)]  # type: ignore[arg-type]
    await jobs.admit_many(bus, queue, new)
    return [job.id for job in new]


async def test_an_idle_worker_picks_a_job_up_within_a_round_trip_not_a_beat(bus: Connector, queue: str) -> None:
    started: list[float] = []

    async def handle(job: Job) -> None:
        started.append(time.monotonic())

    async with running(Worker(bus, queue, handle, options=FAST)):
        await asyncio.sleep(0.15)  # parked by now
        for lane in (None, mint.mint("ROM")):
            before = time.monotonic()
            await admit(bus, queue, lane=lane)
            await until(lambda: started)
            assert started.pop() - before < 1.0, "the beat is five seconds; a wake-up is not"


async def test_every_job_of_a_flood_is_worked_once_and_the_queue_is_empty(bus: Connector, queue: str) -> None:
    book = Book()
    ids = await admit(bus, queue, 300, mint.mint("ROM"))
    async with running(Worker(bus, queue, book, options=FAST)), running(Worker(bus, queue, book, options=FAST)):
        await until(lambda: len(book.seen) >= 300)
    assert sorted(job.id for job in book.seen) == sorted(ids)
    assert not await bus.execute("KEYS", f"{keyspace.of(queue).prefix}job:*")
    assert not (await audit(bus, queue))


async def test_a_raising_handler_is_retried_and_dies_at_its_cap_with_the_last_error(bus: Connector, queue: str) -> None:
    async def handle(job: Job) -> None:
        raise ValueError(f"no luck {job.failures}")

    (job_id,) = await admit(bus, queue, max_attempts=3)
    async with running(Worker(bus, queue, handle, options=FAST)):

        async def dead() -> bool:
            return await state(bus, queue, job_id) == "dead"

        await until(dead)
    row = keyspace.of(queue).row(job_id)
    assert await bus.execute("HMGET", row, "failures", "last_error") == [b"3", b"ValueError: no luck 2"]


async def test_outcomes_put_a_job_where_they_say(bus: Connector, queue: str) -> None:
    first, second, third = await admit(bus, queue, 3)
    outcomes: dict[str, Outcome] = {first: Discard("never"), second: Delay(60_000), third: Retry("later", 60_000)}

    async with running(Worker(bus, queue, Book(lambda job: outcomes[job.id]), options=FAST)):

        async def settled() -> bool:
            return [await state(bus, queue, i) for i in (first, second, third)] == ["dead", "scheduled", "scheduled"]

        await until(settled)
    assert await bus.execute("HGET", keyspace.of(queue).row(second), "failures") is None


async def test_a_parked_lane_rests_exactly_while_others_go_on(bus: Connector, queue: str) -> None:
    slow, other = mint.mint("CHT"), mint.mint("CHT")
    times: dict[str, list[float]] = {slow: [], other: []}

    async def handle(job: Job) -> Outcome | None:
        assert job.lane is not None
        times[job.lane].append(time.monotonic())
        return Park(400) if job.lane == slow and len(times[slow]) == 1 else None

    await admit(bus, queue, 2, slow)
    await admit(bus, queue, 2, other)
    async with running(Worker(bus, queue, handle, options=WorkerOptions(concurrency=1))):
        await until(lambda: len(times[slow]) == 3 and len(times[other]) == 2)
    assert times[slow][1] - times[slow][0] >= 0.4
    assert max(times[other]) < times[slow][1]


async def test_a_bad_outcome_is_a_failure_of_its_job_and_the_worker_goes_on(bus: Connector, queue: str) -> None:
    bad, wrong, good = await admit(bus, queue, 3, max_attempts=1)
    outcomes = {bad: "done", wrong: Complete(effect=Effect("unknown")), good: None}
    async with running(Worker(bus, queue, Book(lambda job: outcomes[job.id]), options=FAST)):  # type: ignore[arg-type]

        async def settled() -> bool:
            return [await state(bus, queue, i) for i in (bad, wrong, good)] == ["dead", "dead", None]

        await until(settled)


async def test_an_effect_commits_with_the_acknowledgement(bus: Connector, queue: str) -> None:
    body = EffectBody("note", "return redis.call('RPUSH', KEYS[1], ARGV[1])")
    key = f"note:{{{queue}}}"
    (job_id,) = await admit(bus, queue)

    def outcome(job: Job) -> Outcome:
        return Complete(effect=Effect("note", [key], [job.token]))

    async with running(Worker(bus, queue, Book(outcome), options=FAST, effects=[body])):

        async def gone() -> bool:
            return await state(bus, queue, job_id) is None

        await until(gone)
    assert await bus.execute("LRANGE", key, 0, -1) == [b"1"]
    await bus.execute("DEL", key)


async def test_a_failing_effect_leaves_its_job_and_is_retried_without_harm_to_others(
    bus: Connector, queue: str
) -> None:
    body = EffectBody("trip", "if ARGV[1] == 'bad' then error('tripped') end")
    bad, good = await admit(bus, queue, 2, max_attempts=2)

    def outcome(job: Job) -> Outcome:
        return Complete(effect=Effect("trip", [], ["bad" if job.id == bad else "good"]))

    async with running(Worker(bus, queue, Book(outcome), options=FAST, effects=[body])):

        async def settled() -> bool:
            return [await state(bus, queue, i) for i in (bad, good)] == ["dead", None]

        await until(settled)
    error = await bus.execute("HGET", keyspace.of(queue).row(bad), "last_error")
    assert b"effect failed" in error
    assert b"tripped" in error


async def test_a_server_without_memory_delays_a_settlement_and_charges_no_failure(
    start_valkey: Callable[..., object], queue: str
) -> None:
    server = start_valkey()
    bus = await Connector.connect(server.url)  # type: ignore[attr-defined]
    body = EffectBody("note", "return redis.call('RPUSH', KEYS[1], ARGV[1])")
    key = f"note:{{{queue}}}"
    release = asyncio.Event()
    faults: list[str] = []

    async def handle(job: Job) -> Outcome:
        await release.wait()
        return Complete(effect=Effect("note", [key], [str(job.failures)]))

    options = WorkerOptions(lease_ms=20_000)
    worker = Worker(bus, queue, handle, options=options, effects=[body], observe=lambda name, _: faults.append(name))
    try:
        (job_id,) = await admit(bus, queue)
        async with running(worker):

            async def active() -> bool:
                return await state(bus, queue, job_id) == "active"

            await until(active)
            await bus.execute("CONFIG", "SET", "maxmemory", "1mb")
            faults.clear()
            release.set()
            await until(lambda: "worker.settled" in faults or "worker.fault" in faults)
            assert await bus.execute("EXISTS", key) == 0
            await bus.execute("CONFIG", "SET", "maxmemory", "0")

            async def gone() -> bool:
                return await state(bus, queue, job_id) is None

            await until(gone)
        assert await bus.execute("LRANGE", key, 0, -1) == [b"0"]
    finally:
        await bus.close()


async def test_a_long_handler_keeps_its_lease(bus: Connector, queue: str) -> None:
    release = asyncio.Event()
    calls: list[str] = []

    async def handle(job: Job) -> None:
        calls.append(job.id)
        await release.wait()

    (job_id,) = await admit(bus, queue)
    options = WorkerOptions(lease_ms=600, grace_ms=2_000)
    async with (
        running(Worker(bus, queue, handle, options=options)),
        running(Worker(bus, queue, handle, options=options)),
    ):
        await until(lambda: calls)
        for _ in range(12):  # two lease lengths
            await asyncio.sleep(0.1)
        release.set()

        async def gone() -> bool:
            return await state(bus, queue, job_id) is None

        await until(gone)
    assert calls == [job_id]


async def test_a_handler_that_lost_its_lease_is_told_and_its_result_changes_nothing(bus: Connector, queue: str) -> None:
    told: list[str] = []
    started = asyncio.Event()
    seen: list[str] = []

    async def handle(job: Job) -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError as error:
            told.append(str(error))
            raise

    (job_id,) = await admit(bus, queue)
    worker = Worker(
        bus,
        queue,
        handle,
        options=WorkerOptions(lease_ms=300, pump=False),
        observe=lambda name, data: seen.append(name),
    )
    async with running(worker):
        await started.wait()
        # Another worker takes the job over: the lease is recovered and claimed anew.
        space = keyspace.of(queue)
        await bus.execute("ZREM", space.key("active"), job_id)
        await bus.execute("HSET", space.row(job_id), "attempts", "2")
        await bus.execute("ZADD", space.key("active"), 9e12, job_id)
        await until(lambda: told)
    assert "lease was lost" in told[0]
    assert "worker.lease_lost" in seen
    assert await state(bus, queue, job_id) == "active"
    assert await bus.execute("HGET", keyspace.of(queue).row(job_id), "attempts") == b"2"


async def test_a_full_worker_that_lost_every_lease_goes_on_with_other_jobs(bus: Connector, queue: str) -> None:
    seen: list[str] = []

    async def handle(job: Job) -> None:
        seen.append(job.id)
        if job.id == first:
            await asyncio.Event().wait()

    (first,) = await admit(bus, queue)
    options = WorkerOptions(concurrency=1, lease_ms=90, beat_ms=60_000, pump=False)
    async with running(Worker(bus, queue, handle, options=options)):
        await until(lambda: seen)
        (second,) = await admit(bus, queue)
        space = keyspace.of(queue)
        await bus.execute("HSET", space.row(first), "attempts", "2")  # somebody else claimed it
        await until(lambda: second in seen)


async def test_stopping_lets_jobs_finish_within_the_grace(bus: Connector, queue: str) -> None:
    started = asyncio.Event()

    async def handle(job: Job) -> None:
        started.set()
        await asyncio.sleep(0.1)

    (job_id,) = await admit(bus, queue)
    async with running(Worker(bus, queue, handle, options=FAST)):
        await started.wait()
    assert await state(bus, queue, job_id) is None


async def test_stopping_gives_the_rest_back_with_no_failure_charged(bus: Connector, queue: str) -> None:
    started = asyncio.Event()

    async def handle(job: Job) -> None:
        started.set()
        await asyncio.Event().wait()

    (job_id,) = await admit(bus, queue, lane=mint.mint("ROM"))
    async with running(Worker(bus, queue, handle, options=WorkerOptions(grace_ms=100))):
        await started.wait()
    assert await state(bus, queue, job_id) == "pending"
    assert await bus.execute("HMGET", keyspace.of(queue).row(job_id), "failures", "stalled") == [None, None]
    assert not (await audit(bus, queue))


async def test_a_batch_handler_gets_one_claim_and_answers_each(bus: Connector, queue: str) -> None:
    batches: list[int] = []

    async def handle(batch: list[Job]) -> list[Outcome | None]:
        batches.append(len(batch))
        return [Discard("odd") if i % 2 else None for i in range(len(batch))]

    await admit(bus, queue, 8)
    options = WorkerOptions(concurrency=8)
    async with running(Worker(bus, queue, batch_handler=handle, options=options)):

        async def dead() -> bool:
            return await bus.execute("ZCARD", keyspace.of(queue).key("dead")) == 4

        await until(dead)
    assert sum(batches) == 8
    assert max(batches) == 8


async def test_a_worker_over_the_budget_parks_until_there_is_one(bus: Connector, queue: str) -> None:
    await limits.set_rate(bus, queue, 2, 300)
    book = Book()
    await admit(bus, queue, 4)
    async with running(Worker(bus, queue, book, options=FAST)):
        await until(lambda: len(book.seen) == 2)
        assert len(book.seen) == 2
        await until(lambda: len(book.seen) == 4)


async def test_a_lapsed_lease_of_a_dead_worker_is_recovered_by_another(bus: Connector, queue: str) -> None:
    (job_id,) = await admit(bus, queue)
    (lost,) = (await claims.claim_many(bus, queue, 1, 50)).jobs
    book = Book()
    async with running(Worker(bus, queue, book, options=FAST)):
        await until(lambda: book.seen)
    assert (book.seen[0].id, book.seen[0].token, book.seen[0].stalled) == (job_id, "2", 1)
    assert await settlement.settle_many(bus, queue, [settlement.Settlement(job_id, lost.token, Complete())]) == [
        settlement.Gone()
    ]


async def test_a_timed_out_handler_is_a_failure(bus: Connector, queue: str) -> None:
    async def handle(job: Job) -> None:
        await asyncio.Event().wait()

    (job_id,) = await admit(bus, queue, timeout_ms=50, max_attempts=1)
    async with running(Worker(bus, queue, handle, options=FAST)):

        async def dead() -> bool:
            return await state(bus, queue, job_id) == "dead"

        await until(dead)


async def test_a_worker_survives_a_server_that_dies_and_comes_back(start_valkey: Callable[..., object]) -> None:
    server = start_valkey(aof=True)
    bus = await Connector.connect(server.url, timeout_s=1.0)  # type: ignore[attr-defined]
    book = Book()
    try:
        async with running(Worker(bus, "q", book, options=FAST)):
            await admit(bus, "q")
            await until(lambda: len(book.seen) == 1)
            server.kill()  # type: ignore[attr-defined]
            await asyncio.sleep(0.2)
            server.start()  # type: ignore[attr-defined]
            await admit(bus, "q")
            await until(lambda: len(book.seen) >= 2)
    finally:
        await bus.close()


def test_options_out_of_range_are_refused_by_name() -> None:
    with pytest.raises(InvalidValue, match="concurrency"):
        WorkerOptions(concurrency=0)
