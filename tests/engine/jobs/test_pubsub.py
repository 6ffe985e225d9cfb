"""Lifecycle events: flat JSON on the queue's channel, and a listener that outlives its connection."""

from __future__ import annotations

import asyncio
import json

import pytest

from codemojex.engine.errors import InvalidId, InvalidName
from codemojex.engine.jobs import pubsub as events
from codemojex.engine.jobs.jobs import Job
from codemojex.engine.jobs.outcome import Complete, Delay, Discard, Outcome, Park, Retry
from codemojex.engine.jobs.pubsub import Event, Subscription
from codemojex.engine.worker.worker import Worker, WorkerOptions
from tests.engine.bench import Bench, lane, running
from tests.support.waiting import until

DEADLINE_S = 5.0


async def hear(subscription: Subscription) -> Event:
    async with asyncio.timeout(DEADLINE_S):
        return await anext(subscription)


async def listeners(bench: Bench) -> int:
    return (await bench.bus.execute("PUBSUB", "NUMSUB", bench.space.events()))[1]


async def kill_listeners(bench: Bench) -> int:
    """Kill the sockets of all listeners of the server, which is this process's own; how many that were."""
    lines = (await bench.bus.execute("CLIENT", "LIST", "TYPE", "PUBSUB")).decode().splitlines()
    ids = [line.split()[0].removeprefix("id=") for line in lines]
    return sum([await bench.bus.execute("CLIENT", "KILL", "ID", i) for i in ids])


async def test_an_event_byte_by_byte(bench: Bench) -> None:
    job_id = bench.id()
    pubsub = bench.bus.subscriber().pubsub()
    await pubsub.subscribe(f"emq:{{{bench.queue}}}:events")
    await pubsub.get_message(timeout=DEADLINE_S)
    assert await events.publish(bench.bus, bench.queue, "failed", job_id, error='a "b" \\ \n ü', step="2") == 1
    message = await pubsub.get_message(timeout=DEADLINE_S)
    await pubsub.aclose()
    text = f'{{"event":"failed","job":"{job_id}","error":"a \\"b\\" \\\\ \\n ü","step":"2"}}'
    assert message["data"] == text.encode()
    assert json.loads(text)["error"] == 'a "b" \\ \n ü'


async def test_a_listener_hears_what_a_host_publishes_in_order(bench: Bench) -> None:
    made = [bench.id() for _ in range(3)]
    async with events.subscribe(bench.bus, bench.queue) as heard:
        for job_id in made:
            await events.publish(bench.bus, bench.queue, "completed", job_id, by="host")
        assert [((e := await hear(heard)).name, e.job, dict(e.data)) for _ in made] == [
            ("completed", job_id, {"by": "host"}) for job_id in made
        ]


async def test_a_message_that_is_no_event_is_heard_as_unknown_with_its_text(bench: Bench) -> None:
    async with events.subscribe(bench.bus, bench.queue) as heard:
        for raw in (b"no json", b'["a"]', b'{"event":1}', b"\xff", b'{"job":"x"}'):
            await bench.bus.execute("PUBLISH", bench.space.events(), raw)
            event = await hear(heard)
            assert (event.name, event.raw) == (events.UNKNOWN, raw)


async def test_an_event_without_a_proper_name_or_job_is_refused(bench: Bench) -> None:
    for name in ("", "Done", 'a"b', "x" * 65):
        with pytest.raises(InvalidName):
            await events.publish(bench.bus, bench.queue, name, bench.id())
    with pytest.raises(InvalidId):
        await events.publish(bench.bus, bench.queue, "completed", "7")


async def test_a_listener_hears_again_after_its_socket_was_killed(bench: Bench) -> None:
    async with events.subscribe(bench.bus, bench.queue) as heard:
        for turn in (1, 2):
            next_event = asyncio.ensure_future(hear(heard))
            await asyncio.sleep(0.01)
            assert await kill_listeners(bench) >= 1
            await until(lambda: heard.reconnects >= turn)  # noqa: B023
            await until(lambda: listeners(bench))
            await events.publish(bench.bus, bench.queue, "completed", bench.id(), turn=str(turn))
            assert (await next_event).data == {"turn": str(turn)}


async def test_a_listener_that_is_closed_ends_and_holds_no_connection(bench: Bench) -> None:
    heard = events.subscribe(bench.bus, bench.queue)
    await heard.open()
    await heard.open()
    assert await listeners(bench) == 1
    await heard.aclose()
    with pytest.raises(StopAsyncIteration):
        await anext(heard)
    await until(lambda: _silent(bench))


async def _silent(bench: Bench) -> bool:
    return await listeners(bench) == 0


async def test_a_silent_connection_is_asked_and_a_dead_one_replaced(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "_SILENCE_S", 0.1)
    monkeypatch.setattr(events, "_ANSWER_S", 0.3)
    async with events.subscribe(bench.bus, bench.queue) as heard:
        next_event = asyncio.ensure_future(hear(heard))
        client = heard._client  # type: ignore[attr-defined]
        asked = 0
        ping = client.ping

        async def count() -> object:
            nonlocal asked
            asked += 1
            return await ping() if asked == 1 else None  # the second question gets no answer

        monkeypatch.setattr(client, "ping", count)
        await until(lambda: asked == 1)
        assert heard.reconnects == 0
        await until(lambda: heard.reconnects == 1)
        await until(lambda: heard._client not in (None, client))  # the server may still count the one that was dropped
        await events.publish(bench.bus, bench.queue, "completed", bench.id())
        await next_event


async def test_a_worker_tells_what_became_of_its_jobs_if_asked(bench: Bench) -> None:
    outcomes: dict[bytes, Outcome] = {
        b"1": Complete(),
        b"2": Retry("again", 60_000),
        b"3": Discard("never"),
        b"4": Delay(60_000),
        b"5": Park(60_000),
    }

    async def handle(job: Job) -> Outcome:
        return outcomes[job.payload]

    made = {}
    for payload in outcomes:
        made[payload] = (await bench.fill([lane(1)], payload))[0]
    worker = Worker(bench.bus, bench.queue, handle, options=WorkerOptions(publish=True, concurrency=1))
    async with events.subscribe(bench.bus, bench.queue) as heard, running(worker):
        told = {(event := await hear(heard)).job: (event.name, dict(event.data)) for _ in range(4)}
    assert told == {
        made[b"1"]: ("completed", {}),
        made[b"2"]: ("failed", {"error": "again", "state": "scheduled"}),
        made[b"3"]: ("failed", {"error": "never", "state": "dead"}),
        made[b"4"]: ("delayed", {}),
    }


async def test_a_worker_that_was_not_asked_publishes_nothing(bench: Bench) -> None:
    async def handle(job: Job) -> None:
        return None

    await bench.fill([None])
    async with events.subscribe(bench.bus, bench.queue) as heard:
        async with running(Worker(bench.bus, bench.queue, handle)):
            await until(lambda: _completed(bench))
        await events.publish(bench.bus, bench.queue, "last", bench.id())
        assert (await hear(heard)).name == "last"


async def _completed(bench: Bench) -> bool:
    return await bench.raw("HGET", "metrics:completed", "count") == b"1"
