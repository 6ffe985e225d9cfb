"""Works a queue: claims fairly, runs handlers under a renewed lease, settles in batches, parks without polling.

The steady state is one call, `settle_and_claim`: finished jobs go back and free slots are filled together. A handler
that lost its lease is told and its late result is refused by the fence. Shutdown stops claiming, lets handlers finish
within the grace, gives the rest back with no failure charged. The worker does not decide limits: the claim does.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from . import cancel, events, keyspace, settlement
from .backoff import Backoff, Exponential
from .claims import MAX_CLAIM
from .connector import Connector
from .errors import ConnectionFault, InvalidValue, ServerError, WorkCancelled
from .jobs import Job
from .middleware import Middleware, wrap
from .observing import Observe, ignore
from .outcome import Complete, Delay, Discard, GiveBack, Outcome, Retry
from .pump import Pump
from .scripts import EffectBody
from .settlement import EffectFailure, Policy, Settled, Settlement, SettleVerdict
from .waiting import reconnect_s, wait

_FULL_PAUSE_MS = 500  # until a server without memory is asked again
_SPARE_S = 1.0  # beyond the grace, for the last settlements
Handler = Callable[[Job], Awaitable[Outcome | None]]
BatchHandler = Callable[[list[Job]], Awaitable[Sequence[Outcome | None]]]
_ERROR_TEXT = 500  # characters of an exception that are kept as the job's last error


@dataclass(frozen=True, slots=True)
class WorkerOptions:
    """How one worker works.

    `concurrency` jobs at a time; leases of `lease_ms`, renewed at a third; `grace_ms` to finish at a stop; a failed
    job is tried `max_attempts` times, `backoff` apart, unless its row says otherwise; an idle worker looks again
    after `beat_ms` at the latest; with `pump` it promotes and recovers as well. With `publish` it tells listeners
    what became of each job; with `hear_cancels` it listens for requests to cancel (otherwise it sees them when it
    renews the lease).
    """

    concurrency: int = 16
    lease_ms: int = 30_000
    grace_ms: int = 10_000
    max_attempts: int = 5
    max_stalled: int = 3
    backoff: Backoff = field(default_factory=Exponential)
    beat_ms: int = 5_000
    pump: bool = True
    publish: bool = False
    hear_cancels: bool = False

    def __post_init__(self) -> None:
        for name in ("concurrency", "lease_ms", "max_attempts", "max_stalled", "beat_ms"):
            if getattr(self, name) < 1:
                raise InvalidValue(f"worker option {name} must be at least 1, not {getattr(self, name)}")
        if self.grace_ms < 0:
            raise InvalidValue(f"worker option grace_ms must not be negative, not {self.grace_ms}")


@dataclass(slots=True)
class _Running:
    """A claimed job and the task that works it."""

    job: Job
    task: asyncio.Task[None] | None = None
    lost: bool = False
    cancel: cancel.CancelToken = field(default_factory=cancel.CancelToken)

    @property
    def key(self) -> tuple[str, str]:
        return self.job.id, self.job.token


class Worker:
    """One worker of one queue. `await run()` works until `stop()`; both are safe to call once."""

    def __init__(
        self,
        bus: Connector,
        queue: str,
        handler: Handler | None = None,
        *,
        batch_handler: BatchHandler | None = None,
        options: WorkerOptions | None = None,
        effects: Sequence[EffectBody] = (),
        observe: Observe | None = None,
        middleware: Sequence[Middleware] = (),
    ) -> None:
        """Give either `handler`, called per job, or `batch_handler`, called with all jobs of one claim.

        A handler returns an outcome, None meaning `Complete()`; whatever it raises is a failure of its jobs.
        `effects` are the bodies that outcomes may name. `observe(event, data)` hears claims, settlements and faults.
        `middleware` surrounds every call of the handler, the first outermost.
        """
        if (handler is None) == (batch_handler is None):
            raise InvalidValue("a worker takes either handler or batch_handler")
        self._bus = bus
        self._queue = queue
        self._handler = wrap(batch_handler or _one_by_one(handler), middleware)
        self._batch = batch_handler is not None
        self._options = options or WorkerOptions()
        self._effects = tuple(effects)
        self._policy = Policy(self._options.max_attempts, self._options.backoff)
        self._observe = observe or ignore
        self._wake_key = keyspace.of(queue).key("wake")
        self._running: dict[tuple[str, str], _Running] = {}  # by job and token
        self._finished: list[Settlement] = []
        self._held: list[Settlement] = []  # refused by a server without memory, to be sent again after a pause
        self._stop = asyncio.Event()
        self._changed = asyncio.Event()  # something finished, or work arrived
        self._hungry = asyncio.Event()  # free slots and nothing to claim

    def stop(self) -> None:
        """Begin a graceful end; `run` returns when it is done."""
        self._stop.set()
        self._changed.set()

    async def run(self) -> None:
        """Work until `stop`. Cancelling `run` ends at once: leases lapse and others recover the jobs."""
        began = time.monotonic()
        self._observe("worker.started", {"queue": self._queue, "concurrency": self._options.concurrency})
        pump = Pump(self._bus, self._queue, max_stalled=self._options.max_stalled, observe=self._observe)
        async with asyncio.TaskGroup() as tasks:
            background = [tasks.create_task(self._renew()), tasks.create_task(self._listen())]
            if self._options.pump:
                background.append(tasks.create_task(pump.run()))
            if self._options.hear_cancels:
                background.append(tasks.create_task(self._hear_cancels()))
            async with asyncio.TaskGroup() as handlers:
                await self._work(handlers)
                await self._finish()
            for task in background:
                task.cancel()
        uptime_ms = int((time.monotonic() - began) * 1000)
        self._observe("worker.stopped", {"queue": self._queue, "uptime_ms": uptime_ms})

    # claiming and settling

    async def _work(self, handlers: asyncio.TaskGroup) -> None:
        faults = 0
        while not self._stop.is_set():
            self._changed.clear()
            free = min(self._options.concurrency - len(self._running), MAX_CLAIM)
            if not free and not self._finished and not self._held:
                await self._changed.wait()
                continue
            try:
                idle_ms = await self._turn(handlers, free)
                faults = 0
            except (ConnectionFault, ServerError) as error:
                faults += 1
                self._observe("worker.fault", {"queue": self._queue, "error": str(error)})
                await wait(self._stop, reconnect_s(faults))
                continue
            if idle_ms > 0 and not self._finished:
                await wait(self._changed, idle_ms / 1000)
                self._hungry.clear()
            await asyncio.sleep(0)  # settlements of one tick travel together

    async def _turn(self, handlers: asyncio.TaskGroup, free: int) -> int:
        """Settle what is finished, fill the free slots; how long to park, 0 for not at all."""
        batch, self._finished, self._held = self._held + self._finished, [], []
        try:
            verdicts, claimed = await settlement.settle_and_claim(
                self._bus, self._queue, batch, free, self._options.lease_ms, effects=self._effects, policy=self._policy
            )
        except BaseException:
            self._finished = batch + self._finished  # the fence makes a second try harmless
            raise
        self._settled(batch, verdicts)
        if self._options.publish:
            await self._publish(batch, verdicts)
        if claimed.jobs:
            self._observe("worker.claimed", {"queue": self._queue, "jobs": len(claimed.jobs)})
            self._start(handlers, claimed.jobs)
        if self._held:
            return _FULL_PAUSE_MS
        if claimed.limited_ms:
            self._observe("worker.limited", {"queue": self._queue, "retry_after_ms": claimed.limited_ms})
            return claimed.limited_ms
        if len(claimed.jobs) >= free:
            return 0
        self._hungry.set()
        return self._options.beat_ms if claimed.next_due_ms is None else min(self._options.beat_ms, claimed.next_due_ms)

    def _settled(self, batch: Sequence[Settlement], verdicts: Sequence[SettleVerdict]) -> None:
        for item, verdict in zip(batch, verdicts, strict=True):
            self._observe("worker.settled", {"queue": self._queue, "job": item.job_id, "verdict": verdict})
            if not isinstance(verdict, EffectFailure):
                continue
            if "OOM" in verdict.reason:
                self._held.append(item)
            elif isinstance(item.outcome, Complete):
                self._finish_later(item.job_id, item.token, Retry(f"effect failed: {verdict.reason}"))
            # What else cannot be settled stays in flight: its lease lapses, and recoveries are capped.

    async def _publish(self, batch: Sequence[Settlement], verdicts: Sequence[SettleVerdict]) -> None:
        texts = [_event(item, v) for item, v in zip(batch, verdicts, strict=True) if isinstance(v, Settled)]
        try:
            await events.publish_many(self._bus, self._queue, [text for text in texts if text])
        except (ConnectionFault, ServerError) as error:  # events are told at most once
            self._observe("worker.fault", {"queue": self._queue, "error": str(error)})

    def _start(self, handlers: asyncio.TaskGroup, jobs: Sequence[Job]) -> None:
        for group in [list(jobs)] if self._batch else [[job] for job in jobs]:
            entries = [_Running(job) for job in group]
            task = handlers.create_task(self._handle(entries))
            for entry in entries:
                entry.task = task
                self._running[entry.key] = entry

    # one handler call

    async def _handle(self, entries: list[_Running]) -> None:
        jobs = [entry.job for entry in entries]
        outcomes: Sequence[Outcome | None]
        cancel.hold({entry.key: entry.cancel for entry in entries})
        try:
            async with asyncio.timeout(_timeout_s(jobs)):
                outcomes = await self._handler(jobs)
            if len(outcomes) != len(jobs):
                raise InvalidValue(f"the handler answered {len(outcomes)} outcomes for {len(jobs)} jobs")
            for outcome in outcomes:
                settlement.check(self._queue, outcome or Complete(), self._effects)
        except asyncio.CancelledError:
            outcomes = [_interrupted(entry) for entry in entries]
        except WorkCancelled as error:  # the raising form of a token's check
            outcomes = [_interrupted(entry, str(error)) for entry in entries]
        except Exception as error:  # one bad job never stops the loop; its row keeps the error
            self._observe("worker.failed", {"queue": self._queue, "jobs": [job.id for job in jobs], "error": error})
            outcomes = [Retry(f"{type(error).__name__}: {error}"[:_ERROR_TEXT])] * len(jobs)
        for entry, outcome in zip(entries, outcomes, strict=True):
            self._running.pop(entry.key, None)
            if not entry.lost:
                self._finish_later(entry.job.id, entry.job.token, outcome or Complete())

    def _finish_later(self, job_id: str, token: str, outcome: Outcome) -> None:
        self._finished.append(Settlement(job_id, token, outcome))
        self._changed.set()

    # leases, wake-ups, the end

    async def _renew(self) -> None:
        """Renew all leases together at a third of their length; tell the handlers of those that are lost."""
        period_s = self._options.lease_ms / 3000
        while True:
            before = time.monotonic()
            await asyncio.sleep(period_s)
            late_ms = int((time.monotonic() - before - period_s) * 1000)
            if late_ms > self._options.lease_ms / 6:
                self._observe("worker.loop_blocked", {"queue": self._queue, "late_ms": late_ms})
            held = list(self._running)
            if not held:
                continue
            try:
                renewed = await settlement.renew_many(self._bus, self._queue, held, self._options.lease_ms)
            except (ConnectionFault, ServerError) as error:
                self._observe("worker.fault", {"queue": self._queue, "error": str(error)})
                continue
            for key in held:
                entry = self._running.get(key)
                if entry and key[0] in renewed.lost:
                    self._lose(entry)
                elif entry and key[0] in renewed.cancelled:
                    self._cancel(entry, renewed.cancelled[key[0]])

    def _lose(self, entry: _Running) -> None:
        entry.lost = True
        self._observe("worker.lease_lost", {"queue": self._queue, "job": entry.job.id})
        self._interrupt(entry, "the lease was lost: another worker has the job")

    def _cancel(self, entry: _Running, reason: str) -> None:
        if entry.cancel.check() is None:
            entry.cancel.cancel(reason)
            self._observe("worker.cancelled", {"queue": self._queue, "job": entry.job.id, "reason": reason})
            self._interrupt(entry, f"cancelled: {reason}")

    def _interrupt(self, entry: _Running, why: str) -> None:
        """Cancel a handler's task once none of its jobs is wanted any more."""
        mates = [other for other in self._running.values() if other.task is entry.task]
        if entry.task and all(mate.lost or mate.cancel.check() is not None for mate in mates):
            entry.task.cancel(why)

    async def _hear_cancels(self) -> None:
        """Act on requests to cancel as soon as they are published; the renewal of leases finds what is missed here."""
        async with contextlib.aclosing(events.subscribe(self._bus, self._queue)) as heard:
            async for event in heard:
                if event.name == cancel.EVENT:
                    for entry in [e for e in self._running.values() if e.job.id == event.job]:
                        self._cancel(entry, event.data.get("reason", "cancelled"))

    async def _listen(self) -> None:
        """Turn wake tokens into `changed` while the worker is hungry; hand on a token that came too late."""
        faults = 0
        while True:
            await self._hungry.wait()
            try:
                beat_s = self._options.beat_ms / 1000
                token = await self._bus.blocking("BLPOP", self._wake_key, beat_s, wait_s=beat_s)
                faults = 0
                if token is not None and not self._hungry.is_set() and not self._free():
                    await self._bus.execute("LPUSH", self._wake_key, "1")
                elif token is not None:
                    self._changed.set()
            except (ConnectionFault, ServerError):
                faults += 1
                await asyncio.sleep(reconnect_s(faults))

    def _free(self) -> bool:
        return len(self._running) < self._options.concurrency and not self._stop.is_set()

    async def _finish(self) -> None:
        """Let handlers end within the grace, then cancel them; settle everything, within the same bound again."""
        deadline = time.monotonic() + self._options.grace_ms / 1000
        while self._running and time.monotonic() < deadline:
            self._changed.clear()
            await self._flush(deadline)
            await wait(self._changed, max(0.0, deadline - time.monotonic()))
        for entry in list(self._running.values()):
            if entry.task:
                entry.task.cancel("the worker stops")
        for _ in range(100):  # cancelled handlers get a few turns of the loop to unwind
            if not self._running:
                break
            await asyncio.sleep(0.01)
        await self._flush(time.monotonic() + _SPARE_S)

    async def _flush(self, deadline: float) -> None:
        faults = 0
        while self._finished:
            batch, self._finished = self._finished, []
            try:
                verdicts = await settlement.settle_many(
                    self._bus, self._queue, batch, effects=self._effects, policy=self._policy
                )
                self._settled(batch, verdicts)
                if self._options.publish:
                    await self._publish(batch, verdicts)
            except (ConnectionFault, ServerError) as error:
                self._finished = batch + self._finished
                faults += 1
                self._observe("worker.fault", {"queue": self._queue, "error": str(error)})
                pause_s = reconnect_s(faults)
                if time.monotonic() + pause_s > deadline:
                    return  # the leases lapse and another worker recovers the jobs
                await asyncio.sleep(pause_s)


def _one_by_one(handler: Handler | None) -> BatchHandler:
    async def handle(jobs: list[Job]) -> Sequence[Outcome | None]:
        assert handler is not None
        return [await handler(jobs[0])]

    return handle


def _interrupted(entry: _Running, reason: str | None = None) -> Outcome:
    """What a cancelled handler leaves: a cancelled job dies, any other goes back as if never claimed."""
    reason = entry.cancel.check() or reason
    return GiveBack() if reason is None else Discard(f"cancelled: {reason}")


def _event(item: Settlement, verdict: Settled) -> bytes | None:
    match item.outcome:
        case Complete():
            return events.encode("completed", item.job_id)
        case Retry(error=error) | Discard(error=error):
            return events.encode("failed", item.job_id, error=error[:_ERROR_TEXT], state=verdict.state)
        case Delay():
            return events.encode("delayed", item.job_id)
        case _:
            return None


def _timeout_s(jobs: Sequence[Job]) -> float | None:
    """The shortest time limit among the jobs of one call."""
    limits = [job.timeout_ms for job in jobs if job.timeout_ms]
    return min(limits) / 1000 if limits else None
