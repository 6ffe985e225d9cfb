"""Scenarios of what is told while jobs run: events, notes, hooks, cancellation, repeats, marks on jobs in flight."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping

from codemojex.engine import ids
from codemojex.engine.errors import Locked, WorkCancelled
from codemojex.engine.inspection import admin
from codemojex.engine.jobs import cancel, progress, pubsub, removal_marks, settlement
from codemojex.engine.jobs.cancel import Answer, CancelToken
from codemojex.engine.jobs.jobs import Job
from codemojex.engine.jobs.pubsub import Event
from codemojex.engine.protocol.conformance.fixture import DEADLINE_S, ScenarioFixture, equal, refused, that
from codemojex.engine.repeats import repeats
from codemojex.engine.repeats.recurrence import Every
from codemojex.engine.repeats.repeats import Repeat
from codemojex.engine.telemetry.telemetry import Telemetry
from codemojex.engine.worker.worker import Worker, WorkerOptions


async def _next(heard: pubsub.Subscription) -> Event:
    async with asyncio.timeout(DEADLINE_S):
        return await anext(heard)


async def events_scenario(stage: ScenarioFixture) -> None:
    """A listener hears a published lifecycle event: a flat JSON object of strings on the queue's channel."""
    job_id = stage.id()
    async with pubsub.subscribe(stage.bus, stage.queue) as heard:
        text = b'{"event":"completed","job":"%s","by":"peer \\"x\\""}' % job_id.encode()
        await stage.bus.execute("PUBLISH", stage.space.events(), text)
        event = await _next(heard)
        equal((event.name, event.job, dict(event.data)), ("completed", job_id, {"by": 'peer "x"'}), "a peer's event")
        equal(await pubsub.publish(stage.bus, stage.queue, "failed", job_id, error='a "b" \\'), 1, "listeners")
        raw = (await _next(heard)).raw
    equal(json.loads(raw), {"event": "failed", "job": job_id, "error": 'a "b" \\'}, "our event")
    that(raw.startswith(b'{"event":"failed","job":"'), "event and job stand first, without blanks")
    equal(await stage.keys(), {}, "the queue's keys: an event is none")


async def resubscribe(stage: ScenarioFixture) -> None:
    """A listener whose socket is killed hears again by itself."""
    job_id, here = stage.id(), stage.space.prefix
    bus = await stage.connect(name=f"listener-{job_id}")
    async with pubsub.subscribe(bus, stage.queue) as heard, asyncio.TaskGroup() as tasks:
        await pubsub.publish(stage.bus, stage.queue, "first", job_id)
        equal((await _next(heard)).name, "first", "the event before")
        hearing = tasks.create_task(_next(heard))
        clients = (await stage.bus.at(here, "CLIENT", "LIST", "TYPE", "PUBSUB")).decode().splitlines()
        sockets = [line.split()[0].removeprefix("id=") for line in clients if f" name=listener-{job_id} " in line]
        equal(len(sockets), 1, "sockets of the listener")
        equal(await stage.bus.at(here, "CLIENT", "KILL", "ID", sockets[0]), 1, "killed sockets")
        await stage.until(lambda: _told(stage, job_id, hearing), "the listener hears again")
        equal((await hearing).name, "second", "the event after")


async def _told(stage: ScenarioFixture, job_id: str, hearing: asyncio.Task[Event]) -> bool:
    """Tell it again: a server may count a socket that it is about to close."""
    await pubsub.publish(stage.bus, stage.queue, "second", job_id)
    return hearing.done()


async def update_progress(stage: ScenarioFixture) -> None:
    """Progress is written to the row and heard as an event in one step; a missing job is typed absent."""
    (job_id,) = await stage.fill(None)
    async with pubsub.subscribe(stage.bus, stage.queue) as heard:
        that(await progress.update_progress(stage.bus, stage.queue, job_id, "40 %"), "the job is there")
        event = await _next(heard)
        equal((event.name, event.job, event.data["progress"]), ("progress", job_id, "40 %"), "the event")
        ghost = stage.id()
        equal(await progress.update_progress(stage.bus, stage.queue, ghost, "1"), False, "a missing job")
        await pubsub.publish(stage.bus, stage.queue, "last", job_id)
        equal((await _next(heard)).name, "last", "the next event: none of the missing job")
    equal((await stage.row(job_id))["progress"], "40 %", "the row")
    equal(await stage.kind(f"job:{ghost}"), "none", "the row of the missing job")


async def job_logs(stage: ScenarioFixture) -> None:
    """Lines are counted, trimmed to the last ones and kept in order; a missing job is typed absent."""
    (job_id,) = await stage.fill(None)
    lengths = [await progress.add_log(stage.bus, stage.queue, job_id, f"line {i}", keep=3) for i in range(5)]
    equal(lengths, [1, 2, 3, 3, 3], "the lengths")
    equal(await stage.items(f"job:{job_id}:logs"), ["line 2", "line 3", "line 4"], "the list, oldest first")
    equal(await progress.get_logs(stage.bus, stage.queue, job_id), ["line 2", "line 3", "line 4"], "the lines")
    equal(await progress.add_log(stage.bus, stage.queue, job_id, "line 5", keep=0), 4, "the length without trimming")
    ghost = stage.id()
    equal(await progress.add_log(stage.bus, stage.queue, ghost, "x"), None, "a line for a missing job")
    equal(await progress.get_logs(stage.bus, stage.queue, ghost), None, "the lines of a missing job")
    equal(await stage.kind(f"job:{ghost}:logs"), "none", "the list of a missing job")


async def telemetry(stage: ScenarioFixture) -> None:
    """An attached handler sees job.complete of each job; one that raises, and none at all, stop nothing."""
    seen: list[tuple[str, object]] = []

    def listen(event: str, measured: Mapping[str, float], about: Mapping[str, object]) -> None:
        seen.append((event, about["job_id"]))
        that(measured["duration"] >= 0, "the duration is measured")

    def broken(*told: object) -> None:
        raise RuntimeError(f"cannot listen to {told}")

    async def handle(job: Job) -> None:
        del job

    board = Telemetry()
    board.attach(broken, "emq.job.complete", "emq.job.start")
    detach = board.attach(listen, "emq.job.complete")
    made = await stage.fill(None, stage.lane(1))
    worker = Worker(stage.bus, stage.queue, handle, observe=board.observe, middleware=[board.middleware])
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(worker.run())
        await stage.until(lambda: _ended(stage, 2), "both jobs end")
        detach()
        await stage.fill(None)
        await stage.until(lambda: _ended(stage, 3), "the job without a listener ends")
        worker.stop()
    equal(sorted(seen, key=str), [("emq.job.complete", job_id) for job_id in sorted(made)], "what was heard")


async def _ended(stage: ScenarioFixture, n: int) -> bool:
    return await stage.count("completed") == n


async def cancel_scenario(stage: ScenarioFixture) -> None:
    """A token is clean until it is cancelled, and the raising check raises; a request finds the worker from outside."""
    token = CancelToken()
    equal(token.check(), None, "a token that nobody cancelled")
    token.require()
    token.cancel("enough")
    token.cancel("again")
    equal(token.check(), "enough", "the reason")
    try:
        token.require()
    except WorkCancelled as error:
        that("enough" in str(error), "the raised reason")
    else:
        that(False, "the raising check raises")
    begun = asyncio.Event()

    async def handle(job: Job) -> None:
        begun.set()
        await asyncio.sleep(60)

    worker = Worker(stage.bus, stage.queue, handle, options=WorkerOptions(lease_ms=300, hear_cancels=True))
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(worker.run())
        running, *_ = await stage.fill(None)
        async with asyncio.timeout(DEADLINE_S):
            await begun.wait()
        answer = await cancel.request(stage.bus, stage.queue, running, "not wanted")
        equal(answer, Answer.ASKED, "the answer for a job in flight")
        await stage.until(lambda: _is_dead(stage, running), "the job ends")
        worker.stop()
    equal((await stage.row(running))["last_error"], "cancelled: not wanted", "the error of the dead letter")
    (waiting,) = await stage.fill(stage.lane(1))
    equal(await cancel.request(stage.bus, stage.queue, waiting, "no"), Answer.CANCELLED, "a waiting job")
    equal(await cancel.request(stage.bus, stage.queue, stage.id(), "no"), Answer.GONE, "a missing job")
    equal(set(await stage.scores("dead")), {running, waiting}, "the dead letters")
    await stage.fill(None)
    (held,) = await stage.take()
    await cancel.request(stage.bus, stage.queue, held.id, "later")
    renewed = await settlement.renew_many(stage.bus, stage.queue, [(held.id, held.token)], 60_000)
    equal(dict(renewed.cancelled), {held.id: "later"}, "what the holder hears when it renews")
    await stage.sound()


async def _is_dead(stage: ScenarioFixture, job_id: str) -> bool:
    return job_id in await stage.scores("dead")


async def repeat_scenario(stage: ScenarioFixture) -> None:
    """One registration fires two occurrences with different ids in the order of minting, each slot once."""
    start = await stage.now_ms() - 5_000
    tick = Repeat("tick", Every(3_600_000), b"template")
    that(await repeats.register(stage.bus, stage.queue, tick, first_at_ms=start), "the name is free")
    equal(await repeats.register(stage.bus, stage.queue, tick), False, "the second registration")
    record = await stage.hash("repeat:tick")
    equal((record["every_ms"], record["template"]), ("3600000", "template"), "the record")
    equal(await stage.scores("repeat"), {"tick": float(start)}, "the next run")
    fired = await asyncio.gather(*(repeats.fire_due(stage.bus, stage.queue) for _ in range(4)))
    equal(sum(len(f.jobs.get("tick", ())) for f in fired), 1, "occurrences of one slot among four pumps")
    equal(await stage.scores("repeat"), {"tick": float(start + 3_600_000)}, "the next run: no drift")
    await stage.raw("ZADD", "repeat", "XX", start + 1_000, "tick")
    await repeats.fire_due(stage.bus, stage.queue)
    made = list(await stage.scores("pending"))
    equal(len(made), 2, "occurrences")
    that(made == sorted(set(made)) and all(ids.is_valid(i) and i[:3] == "JOB" for i in made), "two ids in order")
    equal({(await stage.row(job_id))["payload"] for job_id in made}, {"template"}, "the payloads")
    that(await repeats.cancel(stage.bus, stage.queue, "tick"), "it is cancelled")
    equal(await repeats.cancel(stage.bus, stage.queue, "tick"), False, "the second cancellation")
    equal((await stage.kind("repeat"), await stage.kind("repeat:tick")), ("none", "none"), "set and record")


async def native_lock_field(stage: ScenarioFixture) -> None:
    """The mark in the row has a life time of its own and goes alone; the rest of the row stays."""
    await stage.fill(None)
    (job,) = await stage.take()
    ghost = stage.id()
    marked = await removal_marks.track(stage.bus, stage.queue, [(job.id, job.token), (ghost, "1")], 60)
    equal(marked, [True, False], "the job, and one that does not exist")
    equal(await stage.kind(f"job:{ghost}"), "none", "the row of the missing job")
    equal((await stage.row(job.id))["lock"], job.token, "the row's field")
    equal(await stage.text(f"job:{job.id}:lock"), job.token, "the key")
    [ttl] = await stage.raw("HPTTL", f"job:{job.id}", "FIELDS", 1, "lock")
    that(0 < ttl <= 60, f"the field lives for its time, not {ttl} ms")
    await stage.until(lambda: _unmarked(stage, job.id), "the marks go")
    wanted = {"state": "active", "attempts": "1", "payload": "x"}
    equal(await stage.row(job.id), wanted, "the row without its mark")


async def _unmarked(stage: ScenarioFixture, job_id: str) -> bool:
    return "lock" not in await stage.row(job_id) and await stage.text(f"job:{job_id}:lock") is None


async def native_lock_refuses(stage: ScenarioFixture) -> None:
    """Removal is refused while the row carries its mark, and allowed once that expired."""
    await stage.fill(None)
    (job,) = await stage.take()
    await removal_marks.track(stage.bus, stage.queue, [(job.id, job.token)], 400)
    await stage.raw("DEL", f"job:{job.id}:lock")
    await refused(admin.remove_job(stage.bus, stage.queue, job.id), Locked, "a marked job")
    that(await stage.row(job.id) != {}, "the row stays")
    await stage.until(lambda: _unmarked(stage, job.id), "the mark goes")
    that(await admin.remove_job(stage.bus, stage.queue, job.id), "the job is removed")
    await stage.sound()
