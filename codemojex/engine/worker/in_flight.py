"""The jobs in a worker's hands: handed to the handler, kept under lease, taken away when they are lost or cancelled.

All leases are renewed together at a third of their length. A handler that lost the lease of every job it works on is
told, and its late result goes nowhere. One that was asked to end is told too, and its job dies unless it answers in
time. One bad job never stops anything: what a handler raises is the failure of its jobs, what is no outcome that of
its job.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from codemojex.engine.error_text import CANCELLED, describe, plain
from codemojex.engine.errors import ConnectionFault, ServerError, WorkCancelled
from codemojex.engine.jobs import cancel, pubsub, settlement
from codemojex.engine.jobs.effects import EffectBody
from codemojex.engine.jobs.jobs import Job
from codemojex.engine.jobs.outcome import Complete, Discard, GiveBack, Outcome, Retry
from codemojex.engine.observer import Observe
from codemojex.engine.transport.connector import Connector
from codemojex.engine.waiting import detach, interrupted
from codemojex.engine.worker.lease_guard import REMEDY, Blocked, Grip
from codemojex.engine.worker.middleware import Work

Finish = Callable[[str, str, Outcome], None]


@dataclass(slots=True)
class _Held:
    """A claimed job and the task that works it; None while it waits for its batch."""

    job: Job
    task: asyncio.Task[None] | None = None
    lost: bool = False
    cancel: cancel.CancelToken = field(default_factory=cancel.CancelToken)
    since: float | None = None  # when the handler was called

    @property
    def key(self) -> tuple[str, str]:
        return self.job.id, self.job.token


class InFlight:
    """The jobs that one worker holds.

    `finish` hears how each attempt ended, unless its lease was lost; `changed` is set whenever one ended.
    """

    def __init__(
        self,
        bus: Connector,
        queue: str,
        work: Work,
        *,
        handler: str,
        lease_ms: int,
        effects: Sequence[EffectBody],
        observe: Observe,
        finish: Finish,
        changed: asyncio.Event,
    ) -> None:
        self._bus = bus
        self._handler = handler
        self._queue = queue
        self._work = work
        self._lease_ms = lease_ms
        self._effects = effects
        self._observe = observe
        self._finish = finish
        self._changed = changed
        self._held: dict[tuple[str, str], _Held] = {}  # by job and token
        self._tasks: set[asyncio.Task[None]] = set()  # those of an abandoned handler too
        self._broken = asyncio.Event()
        self._fault: BaseException | None = None
        self._told_blocked = 0.0  # when the guard last said that the loop was blocked

    def __len__(self) -> int:
        return len(self._held)

    @property
    def waiting(self) -> int:
        """How many jobs no handler has yet."""
        return len(self._without_handler())

    def take(self, jobs: Sequence[Job]) -> None:
        """Hold these jobs, just claimed."""
        for job in jobs:
            entry = _Held(job)
            self._held[entry.key] = entry

    def start(self, size: int) -> None:
        """Hand all waiting jobs over, `size` in each call of the handler."""
        entries = self._without_handler()
        for i in range(0, len(entries), size):
            part = entries[i : i + size]
            # Not in a TaskGroup: it would wait for ever for a handler that does not end. `watch` hears of a fault.
            task = asyncio.get_running_loop().create_task(self._handle(part))
            self._tasks.add(task)
            task.add_done_callback(self._ended)
            for entry in part:
                entry.task = task

    def give_back(self) -> None:
        """Give back what no handler has."""
        for entry in self._without_handler():
            self._end(entry, GiveBack())

    def interrupt(self, why: str) -> None:
        """Cancel every handler. Its jobs go back as if never claimed, unless it catches that and answers for them."""
        for task in {entry.task for entry in self._held.values() if entry.task}:
            task.cancel(why)

    def abandon(self) -> None:
        """Give back what handlers do not let go: nothing renews it, and what they still answer goes nowhere."""
        for entry in list(self._held.values()):
            self._tell_abandoned(entry)
            self._end(entry, _interrupted(entry))
            if entry.task:
                detach(entry.task)

    async def drop(self, within_s: float) -> None:
        """Cancel every task and wait for their ends, for so long at most; nothing is given back."""
        for task in self._tasks:
            task.cancel("the worker was cancelled")
        if not self._tasks:
            return
        _, late = await asyncio.wait(self._tasks, timeout=within_s)
        for entry in self._held.values():
            if entry.task in late:
                self._tell_abandoned(entry)
        for task in late:
            detach(task)

    def grips(self) -> list[Grip]:
        """What is held, for the guard's thread."""
        return [
            Grip(entry.job.id, entry.job.token, entry.job.stalled, entry.job.timeout_ms, entry.task, entry.since)
            for entry in list(self._held.values())
            if not entry.lost
        ]

    def blocked(self, what: Blocked) -> None:
        """The loop turns again after it was blocked for so long that the guard had to renew leases."""
        self._told_blocked = time.monotonic()
        late_ms = int((self._told_blocked - what.since) * 1000)
        blame = {"jobs": list(what.jobs), "handler": what.handler, "where": what.where, "remedy": REMEDY}
        self._observe("worker.loop_blocked", {"queue": self._queue, "late_ms": late_ms, **blame})

    async def watch(self) -> None:
        """Wait until cancelled; raise what ended a task that was not its handler's failure, such as an observer's."""
        await self._broken.wait()
        assert self._fault is not None
        raise self._fault

    async def renew(self) -> None:
        """Renew all leases until cancelled."""
        period_s = self._lease_ms / 3000
        while True:
            before = time.monotonic()
            await asyncio.sleep(period_s)
            late_ms = int((time.monotonic() - before - period_s) * 1000)
            if late_ms > self._lease_ms / 6 and self._told_blocked < before:
                self._observe("worker.loop_blocked", {"queue": self._queue, "late_ms": late_ms})
            held = list(self._held)
            if not held:
                continue
            try:
                renewed = await settlement.renew_many(self._bus, self._queue, held, self._lease_ms)
            except (ConnectionFault, ServerError) as error:
                self._observe(
                    "worker.fault",
                    {"queue": self._queue, "error": describe(error), "away": isinstance(error, ConnectionFault)},
                )
                continue
            for key in held:
                entry = self._held.get(key)
                if entry and key[0] in renewed.lost:
                    self._lose(entry)
                elif entry and key[0] in renewed.cancelled:
                    self._cancel(entry, renewed.cancelled[key[0]])

    async def hear_cancels(self) -> None:
        """Act on requests to cancel as soon as they are published; the renewal of leases finds what is missed here."""
        async with contextlib.aclosing(pubsub.subscribe(self._bus, self._queue)) as heard:
            async for event in heard:
                if event.name == cancel.EVENT:
                    for entry in [e for e in self._held.values() if e.job.id == event.job]:
                        self._cancel(entry, event.data.get("reason", "cancelled"))

    async def _handle(self, entries: list[_Held]) -> None:
        jobs = [entry.job for entry in entries]
        now = time.monotonic()
        for entry in entries:
            entry.since = now
        outcomes: Sequence[Outcome]
        cancel.hold({entry.key: entry.cancel for entry in entries})
        try:
            answered = await self._answer(jobs)
            outcomes = [self._sound(job, outcome) for job, outcome in zip(jobs, answered, strict=True)]
        except asyncio.CancelledError:
            outcomes = [_interrupted(entry) for entry in entries]
        except WorkCancelled as error:  # the raising form of a token's check
            outcomes = [_interrupted(entry, plain(error)) for entry in entries]
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:  # its row keeps the error
            outcomes = [self._failed(jobs, error)] * len(jobs)
        for entry, outcome in zip(entries, outcomes, strict=True):
            self._end(entry, outcome)

    async def _answer(self, jobs: list[Job]) -> Sequence[Outcome | None]:
        """What the handler answers for each of its jobs, within their time limit."""
        limit_ms = min((job.timeout_ms for job in jobs if job.timeout_ms), default=None)
        limit = asyncio.timeout(limit_ms and limit_ms / 1000)
        try:
            async with limit:
                return await self._work(jobs)
        except asyncio.CancelledError:
            if interrupted():
                raise
            raise RuntimeError(CANCELLED) from None
        except TimeoutError:
            if limit.expired():
                raise TimeoutError(f"timed out after {limit_ms} ms") from None
            raise

    def _sound(self, job: Job, answered: Outcome | None) -> Outcome:
        """The outcome that the handler answered for `job`; a failure when it is none, or none that can be sent."""
        outcome = Complete() if answered is None else answered
        try:
            if isinstance(outcome, Retry | Discard):
                outcome = replace(outcome, error=plain(outcome.error))
            settlement.check(self._queue, outcome, self._effects)
        except Exception as error:  # an outcome may run foreign code when it is looked at
            return self._failed([job], error)
        return outcome

    def _failed(self, jobs: list[Job], error: BaseException) -> Retry:
        text = describe(error)
        self._observe("worker.failed", {"queue": self._queue, "jobs": [job.id for job in jobs], "error": text})
        return Retry(text)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if task.cancelled():  # before it began
            for entry in [entry for entry in self._held.values() if entry.task is task]:
                self._end(entry, _interrupted(entry))
        elif error := task.exception():
            self._fault = error
            self._broken.set()

    def _end(self, entry: _Held, outcome: Outcome) -> None:
        if self._held.pop(entry.key, None) is None:
            return  # it was abandoned
        if not entry.lost:
            self._finish(entry.job.id, entry.job.token, outcome)
        self._changed.set()

    def _lose(self, entry: _Held) -> None:
        entry.lost = True
        self._observe("worker.lease_lost", {"queue": self._queue, "job": entry.job.id})
        self._interrupt(entry, "the lease was lost: another worker has the job")

    def _tell_abandoned(self, entry: _Held) -> None:
        data: dict[str, object] = {"queue": self._queue, "job": entry.job.id, "handler": self._handler}
        self._observe("worker.abandoned", data)

    def _cancel(self, entry: _Held, reason: str) -> None:
        if entry.cancel.check() is None:
            entry.cancel.cancel(reason)
            self._observe("worker.cancelled", {"queue": self._queue, "job": entry.job.id, "reason": reason})
            self._interrupt(entry, f"cancelled: {reason}")

    def _interrupt(self, entry: _Held, why: str) -> None:
        """Cancel a handler's task once none of its jobs is wanted any more; a job without one ends at once."""
        if entry.task is None:
            self._end(entry, _interrupted(entry))
            return
        mates = [other for other in self._held.values() if other.task is entry.task]
        if all(mate.lost or mate.cancel.check() is not None for mate in mates):
            entry.task.cancel(why)

    def _without_handler(self) -> list[_Held]:
        return [entry for entry in self._held.values() if entry.task is None]


def _interrupted(entry: _Held, reason: str | None = None) -> Outcome:
    """What a cancelled handler leaves: a cancelled job dies, any other goes back as if never claimed."""
    reason = entry.cancel.check() or reason
    return GiveBack() if reason is None else Discard(f"cancelled: {reason}")
