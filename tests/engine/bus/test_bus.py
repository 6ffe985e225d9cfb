"""The front door: what a program needs of the engine, by ten names, on a real server."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from codemojex.engine import (
    Bus,
    Complete,
    Discard,
    Duplicate,
    Enqueued,
    Every,
    Flow,
    InvalidId,
    InvalidName,
    InvalidValue,
    Job,
    Outcome,
    Scheduled,
    TypedJob,
    batch_task,
    ids,
    task,
)
from codemojex.engine.keyspace import NODES_KEY
from tests.engine.bench import lane
from tests.engine.worker.handlers_elsewhere import coroutine

DEADLINE_S = 20


class Letter(msgspec.Struct, frozen=True):
    to: str
    words: int


def shouted(job: TypedJob[Letter]) -> None:
    """Runs in a process, so it stands at the top of a module."""
    if job.payload.to != "mole":
        raise ValueError(job.payload.to)


async def until(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(DEADLINE_S):
        while not true():
            await asyncio.sleep(0.01)


async def test_an_id_is_minted_and_told_or_taken_as_given(front: Bus, queue: str) -> None:
    mail = front.queue(queue)
    first = await mail.enqueue(b"one")
    assert isinstance(first, Enqueued)
    assert ids.is_valid(first.id)
    assert await mail.state(first.id) == "pending"
    given = front.mint()
    assert (await mail.enqueue(b"two", id=given)) == Enqueued()
    assert await mail.enqueue(b"two", id=given) == Duplicate(given)
    with pytest.raises(InvalidId):
        await mail.enqueue(b"two", id="mine")
    assert front.mint("EVT").startswith("EVT")


@pytest.mark.parametrize("delay", [60, 60.0, timedelta(minutes=1)])
async def test_a_delay_is_seconds_or_a_timedelta(front: Bus, queue: str, delay: Any) -> None:
    mail = front.queue(queue)
    verdict = await mail.enqueue(b"later", delay=delay)
    assert isinstance(verdict, Scheduled)
    assert await mail.state(verdict.id) == "scheduled"
    due = (await mail.snapshot()).next_due_ms
    assert due is not None
    assert 60_000 - DEADLINE_S * 1000 < due <= 60_000


async def test_an_instant_is_an_aware_datetime_or_unix_seconds(front: Bus, queue: str) -> None:
    mail = front.queue(queue)
    assert isinstance(await mail.enqueue(b"x", at=datetime.now(UTC) + timedelta(hours=1)), Scheduled)
    assert isinstance(await mail.enqueue(b"x", at=time.time() + 3600), Scheduled)
    with pytest.raises(InvalidValue, match=r"no time zone: use datetime\.now\(UTC\)"):
        await mail.enqueue(b"x", at=datetime(2030, 1, 1))  # which is what is refused
    with pytest.raises(InvalidValue, match="either delay or at"):
        await mail.enqueue(b"x", at=time.time(), delay=1)


@pytest.mark.parametrize(
    ("delay", "remedy"),
    [("60", "a timedelta, or seconds"), (-1, "use 0 to"), (float("nan"), "timedelta"), (10**9, "use 0 to")],
)
async def test_a_wrong_duration_is_refused_with_the_remedy(front: Bus, queue: str, delay: Any, remedy: str) -> None:
    with pytest.raises(InvalidValue, match=remedy):
        await front.queue(queue).enqueue(b"x", delay=delay)
    with pytest.raises(InvalidValue):
        front.queue(queue).task(lease=delay)
    assert (await front.queue(queue).counts()).pending == 0


async def test_a_dedup_key_holds_for_its_time(front: Bus, queue: str) -> None:
    mail = front.queue(queue)
    first = await mail.enqueue(b"x", dedup="welcome", dedup_for=60)
    assert isinstance(first, Enqueued)
    assert await mail.enqueue(b"x", dedup="welcome", dedup_for=60) == Duplicate(first.id)
    with pytest.raises(InvalidValue, match="dedup_for=60"):
        await mail.enqueue(b"x", dedup="welcome")


async def test_many_are_admitted_in_order_payloads_and_jobs(front: Bus, queue: str) -> None:
    mail = front.queue(queue)
    verdicts = await mail.enqueue_many([b"a", mail.new(b"b", delay=60), b"c"])
    assert verdicts == [Enqueued(), Scheduled(), Enqueued()]
    told = [verdict.id for verdict in verdicts if isinstance(verdict, Enqueued | Scheduled)]
    assert [(await mail.job(i) or {})["payload"] for i in told] == [b"a", b"b", b"c"]


async def test_a_payload_of_a_struct_arrives_as_one(front: Bus, queue: str) -> None:
    mail = front.queue(queue, codec=Letter)
    seen: list[Letter] = []

    @mail.task()
    async def send(job: TypedJob[Letter]) -> None:
        assert job.id == job.raw.id
        assert job.failures == 0
        seen.append(job.payload)
        front.stop()

    await mail.enqueue(Letter("mole", 3))
    async with asyncio.timeout(DEADLINE_S):
        await front.work(send)
    assert seen == [Letter("mole", 3)]


async def test_a_payload_of_another_type_is_refused(front: Bus, queue: str) -> None:
    with pytest.raises(InvalidValue, match="a Letter"):
        await front.queue(queue, codec=Letter).enqueue(b"bytes")  # pyright: ignore[reportArgumentType]
    with pytest.raises(InvalidValue, match="codec=YourStruct"):
        await front.queue(queue).enqueue("text")  # pyright: ignore[reportArgumentType]
    with pytest.raises(InvalidValue, match="encode and decode"):
        front.queue(queue, codec="json")  # pyright: ignore[reportArgumentType, reportCallIssue]


async def test_a_payload_that_cannot_be_read_becomes_a_dead_letter(front: Bus, queue: str) -> None:
    mail = front.queue(queue, codec=Letter)
    told = await front.queue(queue).enqueue(b"\xc1")
    assert isinstance(told, Enqueued)

    @mail.task(max_attempts=1)
    async def send(job: TypedJob[Letter]) -> None: ...

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(front.work(send, signals=False))
        async with asyncio.timeout(DEADLINE_S):
            while await mail.state(told.id) != "dead":
                await asyncio.sleep(0.01)
        front.stop()
    assert b"cannot be read" in b"".join((await mail.job(told.id) or {}).values())


async def test_two_queues_are_worked_together_and_end_on_stop(front: Bus, queue: str) -> None:
    mail, images = front.queue(queue), front.queue(f"{queue}-images")
    seen: list[tuple[str, bytes, bool]] = []
    here = threading.get_ident()

    @mail.task(concurrency=2)
    async def send(job: Job) -> Outcome:
        seen.append(("mail", job.payload, threading.get_ident() == here))
        return Complete()

    @images.task()
    def resize(job: Job) -> None:
        seen.append(("images", job.payload, threading.get_ident() == here))

    await mail.enqueue(b"m")
    await images.enqueue(b"i")
    async with asyncio.TaskGroup() as tasks:
        work = tasks.create_task(front.work(send, resize, grace=timedelta(seconds=5)))
        await until(lambda: len(seen) == 2)
        front.stop()
        async with asyncio.timeout(DEADLINE_S):
            await work
    assert sorted(seen) == [("images", b"i", False), ("mail", b"m", True)]
    assert ((await mail.counts()).completed, (await images.counts()).completed) == (1, 1)


async def test_a_batch_task_answers_for_each_member(front: Bus, queue: str) -> None:
    mail = front.queue(queue, codec=Letter)

    @mail.batch_task(min_size=3, wait=10)
    async def send(jobs: list[TypedJob[Letter]]) -> dict[str, Outcome | None]:
        front.stop()
        return {job.id: None if job.payload.words else Discard("empty") for job in jobs}

    await mail.enqueue_many([Letter("a", 1), Letter("b", 0), Letter("c", 2)])
    async with asyncio.timeout(DEADLINE_S):
        await front.work(send)
    counts = await mail.counts()
    assert (counts.completed, counts.dead) == (2, 1)


@pytest.mark.timeout(60)
async def test_a_plain_function_of_a_typed_payload_runs_in_a_process(front: Bus, queue: str) -> None:
    mail = front.queue(queue, codec=Letter)
    send = mail.task(runs_in="process", max_attempts=1)(shouted)
    await mail.enqueue(Letter("mole", 1))
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(front.work(send, signals=False))
        async with asyncio.timeout(50):
            while (counts := await mail.counts()).completed + counts.dead == 0:
                await asyncio.sleep(0.05)
        front.stop()
    assert (counts.completed, counts.dead) == (1, 0)


async def test_tasks_of_a_module_and_workers_work_too(front: Bus, queue: str) -> None:
    seen: list[bytes] = []

    @task(queue)
    async def one(job: Job) -> None:
        seen.append(job.payload)

    @batch_task(f"{queue}-b", min_size=1)
    async def many(jobs: list[Job]) -> dict[str, Outcome | None]:
        seen.extend(job.payload for job in jobs)
        return {job.id: None for job in jobs}

    async def read(records: Any) -> None:
        seen.extend(record.fields["what"] for record in records)

    mail = front.queue(queue)
    await mail.streams.append("seen", {"what": "record"})
    await mail.enqueue(b"one")
    await front.queue(f"{queue}-b").enqueue(b"many")
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(front.work(one, many.worker(front.connector), mail.streams.reader("seen", "g", "c", read)))
        await until(lambda: len(seen) == 3)
        front.stop()
    assert sorted(seen) == [b"many", b"one", b"record"]


async def test_the_first_signal_lets_handlers_finish_and_the_second_does_not(front: Bus, queue: str) -> None:
    mail = front.queue(queue)
    began, ended = asyncio.Event(), asyncio.Event()
    go = asyncio.Event()

    @mail.task(grace=600)
    async def wait(job: Job) -> None:
        began.set()
        await go.wait()
        ended.set()

    before = signal.getsignal(signal.SIGTERM)
    for at_once in (False, True):
        for event in (began, ended, go):
            event.clear()
        told = await mail.enqueue(b"x")
        async with asyncio.timeout(DEADLINE_S), asyncio.TaskGroup() as tasks:
            work = tasks.create_task(front.work(wait))
            await began.wait()
            os.kill(os.getpid(), signal.SIGTERM)
            await asyncio.sleep(0.1)
            assert not work.done()
            if at_once:
                os.kill(os.getpid(), signal.SIGTERM)
            else:
                go.set()
            await work
        assert ended.is_set() is not at_once
        assert isinstance(told, Enqueued)
        assert await mail.state(told.id) == ("active" if at_once else "absent")
    assert signal.getsignal(signal.SIGTERM) == before


async def test_what_hangs_on_a_queue_is_reached_from_it(front: Bus, queue: str) -> None:
    mail = front.queue(queue)
    await mail.enqueue(b"x", lane=lane(1))
    await mail.lanes.limit(lane(1), 3)
    explained = await mail.lanes.explain(lane(1))
    assert (explained.depth, explained.limit, explained.reasons) == (1, 3, ())
    await mail.limits.bucket(rate=30, burst=7)
    limiter = (await mail.snapshot()).limiter
    assert limiter is not None
    assert (limiter.size, limiter.rate_per_s) == (7, 30)
    assert await mail.limits.wait() == timedelta(0)

    parent = mail.new(b"parent")
    assert not isinstance(await mail.flows.add(Flow(parent, [Flow(mail.new(b"child"))])), Duplicate)
    assert await mail.flows.waits_for(parent.id) == 1

    assert await mail.repeats.register("hourly", timedelta(hours=1), b"tick", first=time.time() + 60)
    assert not await mail.repeats.register("hourly", 5, b"tick")
    repeat = await mail.repeats.get("hourly")
    assert repeat is not None
    assert repeat.schedule == Every(3_600_000)
    assert await mail.repeats.names() == ["hourly"]
    assert await mail.repeats.cancel("hourly")

    told = await mail.streams.append("log", {"a": "b"})
    assert [record.id for record in await mail.streams.read("log")] == [told]
    assert len(await mail.streams.since("log", time.time() - 60)) == 1
    assert queue in await front.queues()


async def test_an_operator_acts_on_a_job(front: Bus, queue: str) -> None:
    mail = front.queue(queue)
    told = await mail.enqueue(b"x")
    assert isinstance(told, Enqueued)
    await mail.pause()
    assert (await mail.counts()).paused
    await mail.resume()
    assert not (await mail.counts()).paused
    assert await mail.audit() == []
    assert await mail.remove(told.id)
    assert not await mail.remove(told.id)
    assert not await mail.reprocess(told.id)


async def test_the_near_cache_is_of_the_bus(front: Bus, queue: str) -> None:
    async with front.near_cache() as cache:
        assert cache.stats() == {}


async def test_close_gives_the_node_number_back(valkey_url: str) -> None:
    async with Bus.connect(valkey_url) as bus:
        number = ids.parse(bus.mint()).node
        assert number in ids.LEASED_NODES
        held_until_ms = await _leased_until_ms(bus, number)
    told: list[str] = []
    other = await Bus.connect(valkey_url, node=3, observe=lambda name, _: told.append(name))
    assert ids.parse(other.mint()).node == 3
    assert "node.leased" not in told
    assert await _leased_until_ms(other, number) < held_until_ms
    await other.close()
    await other.close()


async def _leased_until_ms(bus: Bus, node: int) -> int:
    return int((await bus.connector.execute("HGET", NODES_KEY, str(node))).partition(b":")[0])


async def test_a_wrong_address_name_or_handler_is_refused(front: Bus, queue: str) -> None:
    with pytest.raises(InvalidValue, match="must start with"):
        await Bus.connect("http://localhost")
    with pytest.raises(InvalidValue, match="timeout"):
        await Bus.connect("valkey://localhost", timeout="5")  # pyright: ignore[reportArgumentType]
    with pytest.raises(InvalidName):
        front.queue("a queue")
    with pytest.raises(InvalidValue, match="names of WorkerOptions"):
        front.queue(queue).task(paralel=3)
    with pytest.raises(InvalidValue, match="async and cannot run in a process"):
        front.queue(queue).task(runs_in="process")(coroutine)
    with pytest.raises(InvalidValue, match="at least one task"):
        await front.work()
    with pytest.raises(InvalidValue, match="a task"):
        await front.work(shouted)  # pyright: ignore[reportArgumentType]
