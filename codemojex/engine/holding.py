"""The jobs in a worker's hands: handed to the handler, kept under lease, taken away when they are lost or cancelled.

All leases are renewed together at a third of their length. A handler that lost the lease of every job it works on is
told, and its late result goes nowhere. One that was asked to end is told too, and its job dies unless it answers in
time. One bad job never stops anything: what a handler raises is the failure of its jobs.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from . import cancel, events, settlement
from .connector import Connector
from .effects import EffectBody
from .errors import ConnectionFault, InvalidValue, ServerError, WorkCancelled
from .jobs import Job
from .middleware import Work
from .observing import Observe
from .outcome import Complete, Discard, GiveBack, Outcome, Retry
from .settling import MAX_ERROR_TEXT

Finish = Callable[[str, str, Outcome], None]


@dataclass(slots=True)
class _Held:
    """A claimed job and the task that works it; None while it waits for its batch."""

    job: Job
    task: asyncio.Task[None] | None = None
    lost: bool = False
    cancel: cancel.CancelToken = field(default_factory=cancel.CancelToken)

    @property
    def key(self) -> tuple[str, str]:
        return self.job.id, self.job.token


class Hands:
    """The jobs that one worker holds.

    `finish` hears how each attempt ended, unless its lease was lost; `changed` is set whenever one ended.
    """

    def __init__(
        self,
        bus: Connector,
        queue: str,
        work: Work,
        *,
        lease_ms: int,
        effects: Sequence[EffectBody],
        observe: Observe,
        finish: Finish,
        changed: asyncio.Event,
    ) -> None:
        self._bus = bus
        self._queue = queue
        self._work = work
        self._lease_ms = lease_ms
        self._effects = effects
        self._observe = observe
        self._finish = finish
        self._changed = changed
        self._held: dict[tuple[str, str], _Held] = {}  # by job and token

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

    def start(self, handlers: asyncio.TaskGroup, size: int) -> None:
        """Hand all waiting jobs over, `size` in each call of the handler."""
        entries = self._without_handler()
        for i in range(0, len(entries), size):
            part = entries[i : i + size]
            task = handlers.create_task(self._handle(part))
            for entry in part:
                entry.task = task

    def give_back(self) -> None:
        """Give back what no handler has."""
        for entry in self._without_handler():
            self._end(entry, GiveBack())

    def interrupt(self, why: str) -> None:
        """Cancel every handler: their jobs go back as if never claimed."""
        for entry in list(self._held.values()):
            if entry.task:
                entry.task.cancel(why)

    async def renew(self) -> None:
        """Renew all leases until cancelled."""
        period_s = self._lease_ms / 3000
        while True:
            before = time.monotonic()
            await asyncio.sleep(period_s)
            late_ms = int((time.monotonic() - before - period_s) * 1000)
            if late_ms > self._lease_ms / 6:
                self._observe("worker.loop_blocked", {"queue": self._queue, "late_ms": late_ms})
            held = list(self._held)
            if not held:
                continue
            try:
                renewed = await settlement.renew_many(self._bus, self._queue, held, self._lease_ms)
            except (ConnectionFault, ServerError) as error:
                self._observe("worker.fault", {"queue": self._queue, "error": str(error)})
                continue
            for key in held:
                entry = self._held.get(key)
                if entry and key[0] in renewed.lost:
                    self._lose(entry)
                elif entry and key[0] in renewed.cancelled:
                    self._cancel(entry, renewed.cancelled[key[0]])

    async def hear_cancels(self) -> None:
        """Act on requests to cancel as soon as they are published; the renewal of leases finds what is missed here."""
        async with contextlib.aclosing(events.subscribe(self._bus, self._queue)) as heard:
            async for event in heard:
                if event.name == cancel.EVENT:
                    for entry in [e for e in self._held.values() if e.job.id == event.job]:
                        self._cancel(entry, event.data.get("reason", "cancelled"))

    async def _handle(self, entries: list[_Held]) -> None:
        jobs = [entry.job for entry in entries]
        outcomes: Sequence[Outcome | None]
        cancel.hold({entry.key: entry.cancel for entry in entries})
        try:
            async with asyncio.timeout(_timeout_s(jobs)):
                outcomes = await self._work(jobs)
            if len(outcomes) != len(jobs):
                raise InvalidValue(f"the handler answered {len(outcomes)} outcomes for {len(jobs)} jobs")
            for outcome in outcomes:
                settlement.check(self._queue, outcome or Complete(), self._effects)
        except asyncio.CancelledError:
            outcomes = [_interrupted(entry) for entry in entries]
        except WorkCancelled as error:  # the raising form of a token's check
            outcomes = [_interrupted(entry, str(error)) for entry in entries]
        except Exception as error:  # its row keeps the error
            self._observe("worker.failed", {"queue": self._queue, "jobs": [job.id for job in jobs], "error": error})
            outcomes = [Retry(f"{type(error).__name__}: {error}"[:MAX_ERROR_TEXT])] * len(jobs)
        for entry, outcome in zip(entries, outcomes, strict=True):
            self._end(entry, outcome or Complete())

    def _end(self, entry: _Held, outcome: Outcome) -> None:
        self._held.pop(entry.key, None)
        if not entry.lost:
            self._finish(entry.job.id, entry.job.token, outcome)
        self._changed.set()

    def _lose(self, entry: _Held) -> None:
        entry.lost = True
        self._observe("worker.lease_lost", {"queue": self._queue, "job": entry.job.id})
        self._interrupt(entry, "the lease was lost: another worker has the job")

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


def _timeout_s(jobs: Sequence[Job]) -> float | None:
    """The shortest time limit among the jobs of one call."""
    limits = [job.timeout_ms for job in jobs if job.timeout_ms]
    return min(limits) / 1000 if limits else None
