"""Works a queue: claims fairly, runs handlers under a renewed lease, settles in batches, parks without polling.

The steady state is one call, `settle_and_claim`: finished jobs go back and free slots are filled together. Shutdown
stops claiming, lets handlers finish within the grace, gives the rest back with no failure charged. A server that gives
the loop no answer for a while is found anew, over new sockets. The worker does not decide limits: the claim does.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Awaitable, Callable, Generator, Sequence
from dataclasses import dataclass, field

from codemojex.engine import keyspace, validation
from codemojex.engine.backoff import Backoff, Exponential, Fixed
from codemojex.engine.error_text import describe
from codemojex.engine.errors import ConnectionFault, InvalidValue, ScriptDefect, ServerError, VersionFence
from codemojex.engine.jobs.claims import MAX_CLAIM, MAX_LANE_LIMIT, MAX_LEASE_MS
from codemojex.engine.jobs.effects import EffectBody
from codemojex.engine.jobs.jobs import Job
from codemojex.engine.jobs.outcome import Outcome
from codemojex.engine.jobs.settlement import Policy
from codemojex.engine.maintenance.pump import Pump
from codemojex.engine.observer import Observe, observer
from codemojex.engine.transport.connector import Connector, connector
from codemojex.engine.waiting import reconnect_s, wait
from codemojex.engine.worker import calling, lease_guard
from codemojex.engine.worker.batch_shape import Shaper
from codemojex.engine.worker.calling import Call
from codemojex.engine.worker.in_flight import InFlight
from codemojex.engine.worker.lease_guard import Grip, Ward
from codemojex.engine.worker.middleware import Middleware, Work, wrap
from codemojex.engine.worker.settler import Settler

_FULL_PAUSE_MS = 500  # until a server without memory is asked again
_CALM_S = 0.05  # between two claims of a worker over budget that is woken: admissions wake it too
_RANGES = {
    "concurrency": (1, 10_000),
    "lease_ms": (1, MAX_LEASE_MS),
    "grace_ms": (0, MAX_LEASE_MS),
    "unwind_ms": (0, MAX_LEASE_MS),
    "max_attempts": (1, validation.MAX_ATTEMPTS),
    "max_stalled": (1, validation.MAX_ATTEMPTS),
    "beat_ms": (1, 3_600_000),
    "silent_ms": (50, MAX_LEASE_MS),
}
_SPARE_S = 1.0  # beyond the grace, for the last settlements
Handler = Callable[[Job], Awaitable[Outcome | None] | Outcome | None]
Answers = Sequence[Outcome | None]
BatchHandler = Callable[[list[Job]], Awaitable[Answers] | Answers]


@dataclass(frozen=True, slots=True)
class WorkerOptions:
    """How one worker works.

    `concurrency` jobs at a time; leases of `lease_ms`, renewed at a third; `grace_ms` to finish at a stop, and then
    `unwind_ms` for cancelled handlers to tidy up, before what they hold is given back without them; a failed job is
    tried `max_attempts` times, `backoff` apart, unless its row says otherwise; an idle worker looks again
    after `beat_ms` at the latest; one whose claims get no answer for `silent_ms` drops its sockets and finds the server
    again. `lane_limit` is the ceiling of every lane that has none: each claim brings it, so an order that the program
    relies on does not depend on the queue's settings. With `pump` it promotes and recovers as well, and unless
    `deliver` is off it tells parents in other queues of their children (off: another engine's pump does); with
    `publish` it tells listeners what became of each job; with `hear_cancels` it listens for requests to cancel
    (otherwise it sees them when it renews the lease). A handler that is a plain function `runs_in` a thread, or in a
    process of its own.
    """

    concurrency: int = 16
    lease_ms: int = 30_000
    grace_ms: int = 10_000
    unwind_ms: int = 3_000
    max_attempts: int = 5
    max_stalled: int = 3
    backoff: Backoff = field(default_factory=Exponential)
    beat_ms: int = 5_000
    silent_ms: int = 30_000
    lane_limit: int | None = None
    pump: bool = True
    deliver: bool = True
    publish: bool = False
    hear_cancels: bool = False
    runs_in: calling.RunsIn = "thread"

    def __post_init__(self) -> None:
        for name, (low, high) in _RANGES.items():
            validation.integer(f"worker option {name}", getattr(self, name), low, high)
        if self.lane_limit is not None:
            validation.integer("worker option lane_limit", self.lane_limit, 1, MAX_LANE_LIMIT)
        validation.one_of("worker option backoff", self.backoff, Fixed, Exponential)
        for name in ("pump", "deliver", "publish", "hear_cancels"):
            validation.flag(f"worker option {name}", getattr(self, name))
        validation.choice("worker option runs_in", self.runs_in, "thread", "process")


class Worker:
    """One worker of one queue. `await run()` works until `stop()`; both are safe to call once."""

    def __init__(
        self,
        bus: Connector,
        queue: str,
        handler: Handler | None = None,
        *,
        batch_handler: BatchHandler | Call | None = None,
        shaper: Shaper | None = None,
        options: WorkerOptions | None = None,
        effects: Sequence[EffectBody] = (),
        observe: Observe | None = None,
        middleware: Sequence[Middleware] = (),
    ) -> None:
        """Give either `handler`, called per job, or `batch_handler`, called with all jobs of one claim.

        A handler returns an outcome, None meaning `Complete()`; whatever it raises is a failure of its jobs. It is an
        async function, or a plain one that runs in a thread (see `calling`).
        `effects` are the bodies that outcomes may name. `observe(event, data)` hears claims, settlements and faults.
        `middleware` surrounds every call of the handler, the first outermost. With `shaper` the jobs of several claims
        wait under their leases until it says that they make a batch, and one batch is worked at a time.
        """
        if (handler is None) == (batch_handler is None):
            raise InvalidValue("a worker takes either handler or batch_handler")
        self._bus = connector("bus", bus)
        if shaper is not None:
            validation.one_of("shaper", shaper, Shaper)
        options = WorkerOptions() if options is None else options
        validation.one_of("options", options, WorkerOptions)
        bodies = validation.many("effects", effects, EffectBody)
        what, given = ("handler", handler) if handler is not None else ("batch_handler", batch_handler)
        self._call = given if isinstance(given, Call) else Call(what, given, options.runs_in, options.concurrency)
        self._queue = queue
        self._options = options
        self._observe = observer(observe)
        self._shaper = shaper
        self._group = self._options.concurrency if handler is None else 1  # most jobs of one call of the handler
        self._wake_key = keyspace.of(queue).key("wake")
        self._stop = asyncio.Event()
        self._changed = asyncio.Event()  # something finished, or work arrived
        self._hungry = asyncio.Event()  # free slots and nothing to claim
        self._calm_until = 0.0  # the budget was spent a moment ago
        policy = Policy(self._options.max_attempts, self._options.backoff)
        publish, lane_limit = self._options.publish, self._options.lane_limit
        self._settler = Settler(bus, queue, policy, bodies, self._observe, publish=publish, lane_limit=lane_limit)
        self._call.serve(queue, self._observe, self._changed.set)
        work = wrap(self._call if handler is None else _one_by_one(self._call), middleware)
        self._hands = InFlight(
            bus,
            queue,
            work,
            handler=self._call.name,
            lease_ms=self._options.lease_ms,
            effects=bodies,
            observe=self._observe,
            finish=self._settler.add,
            changed=self._changed,
        )

    def stop(self) -> None:
        """Begin a graceful end; `run` returns when it is done."""
        self._stop.set()
        self._changed.set()

    async def run(self) -> None:
        """Work until `stop`. Cancelling `run` cancels the handlers: leases lapse and others recover the jobs.

        Raises, in an ExceptionGroup, what no retry mends: ScriptDefect for an effect that does not compile,
        VersionFence, and what an observer raised. After `stop` it takes `grace_ms` and `unwind_ms` at the most, and
        the time limit of the connection more when the server does not answer.
        """
        began = time.monotonic()
        self._observe("worker.started", {"queue": self._queue, "concurrency": self._options.concurrency})
        with self._guarded():
            await self._run()
        uptime_ms = int((time.monotonic() - began) * 1000)
        self._observe("worker.stopped", {"queue": self._queue, "uptime_ms": uptime_ms})

    async def _run(self) -> None:
        pump = Pump(
            self._bus,
            self._queue,
            max_stalled=self._options.max_stalled,
            deliver=self._options.deliver,
            observe=self._observe,
        )
        async with asyncio.TaskGroup() as tasks:
            hands = self._hands
            background = [tasks.create_task(part) for part in (hands.renew(), hands.watch(), self._listen())]
            if self._options.pump:
                background.append(tasks.create_task(pump.run()))
            if self._options.hear_cancels:
                background.append(tasks.create_task(hands.hear_cancels()))
            try:
                await self._work()
                await self._finish()
            except BaseException:
                await hands.drop(self._options.unwind_ms / 1000)
                raise
            for task in background:
                task.cancel()

    @contextlib.contextmanager
    def _guarded(self) -> Generator[None]:
        """The guard looks after the leases inside; the handler's threads and processes end with it."""
        look = None
        if opened := self._bus.opened:
            loop, thread = asyncio.get_running_loop(), threading.get_ident()
            name, lease_ms = self._call.name, self._options.lease_ms
            ward = Ward(opened, self._queue, name, lease_ms, self._grips, self._hands.blocked, loop, thread)
            look = lease_guard.guard.enter(ward)
        try:
            yield
        finally:
            if look:
                lease_guard.guard.leave(look)
            self._call.close()

    def _grips(self) -> list[Grip]:
        unsent = [Grip(job_id, token, 0, None, None, None, finished=True) for job_id, token in self._settler.unsent()]
        return self._hands.grips() + unsent

    async def _work(self) -> None:
        faults = 0
        silent_s = self._options.silent_ms / 1000
        asked = time.monotonic()  # since when there has been no answer
        while not self._stop.is_set():
            self._changed.clear()
            batch_ms = self._hand_over()
            free = self._free()
            if not free and batch_ms is None and not self._settler.ready and not self._settler.held:
                await self._changed.wait()
                continue
            asked = asked if faults else time.monotonic()
            try:
                async with asyncio.timeout(silent_s):
                    idle_ms = await self._turn(free)
                faults = 0
            except (VersionFence, ScriptDefect):
                raise
            except Exception as error:  # of the connection, of the server, or of what it answered
                faults += 1
                self._observe(
                    "worker.fault",
                    {
                        "queue": self._queue,
                        "error": describe(error),
                        "away": isinstance(error, ConnectionFault | TimeoutError),
                    },
                )
                if time.monotonic() - asked >= silent_s:
                    await self._start_anew()
                    asked = time.monotonic()
                await wait(self._stop, reconnect_s(faults))
                continue
            if idle_ms > 0 and not self._settler.ready:
                await wait(self._changed, idle_ms / 1000)
                self._hungry.clear()
            await asyncio.sleep(0)  # settlements of one tick travel together

    async def _turn(self, free: int) -> float:
        """Settle what is finished, fill the free slots; how long to park, 0 for not at all."""
        claimed = await self._settler.settle_and_claim(free, self._options.lease_ms)
        if claimed.jobs:
            self._observe("worker.claimed", {"queue": self._queue, "jobs": len(claimed.jobs)})
            self._hands.take(claimed.jobs)
        if claimed.unreadable:
            self._observe("worker.unreadable", {"queue": self._queue, "jobs": list(claimed.unreadable)})
        batch_ms = self._hand_over()
        await self._settler.publish()
        waits = [] if batch_ms is None else [batch_ms]
        if self._settler.held:
            waits.append(_FULL_PAUSE_MS)
        elif claimed.limited_ms:
            self._observe("worker.limited", {"queue": self._queue, "retry_after_ms": claimed.limited_ms})
            self._calm_until = time.monotonic() + _CALM_S
            self._hungry.set()  # a changed limit leaves a token
            waits.append(min(claimed.limited_ms, self._options.beat_ms))
        elif len(claimed.jobs) < free:
            self._hungry.set()
            waits += [self._options.beat_ms] + ([] if claimed.next_due_ms is None else [claimed.next_due_ms])
        return min(waits, default=0)

    def _hand_over(self) -> float | None:
        """Start the handler on what waits for it, if that is a batch by now; else how long it may still wait."""
        now_ms = time.monotonic() * 1000
        if self._shaper is None or self._shaper.size(self._hands.waiting, now_ms):
            self._hands.start(self._group)
            return None
        return self._shaper.left_ms(now_ms)

    def _free(self) -> int:
        """How many jobs to claim: none while a batch is being worked."""
        held = len(self._hands) + self._call.left
        if self._shaper is not None and held > self._hands.waiting:
            return 0
        return min(max(0, self._options.concurrency - held), MAX_CLAIM)

    async def _start_anew(self) -> None:
        self._observe("worker.rebuilt", {"queue": self._queue, "silent_ms": self._options.silent_ms})
        try:
            async with asyncio.timeout(_SPARE_S):
                await self._bus.renew(self._wake_key)
        except (ConnectionFault, ServerError, TimeoutError) as error:
            self._observe(
                "worker.fault",
                {
                    "queue": self._queue,
                    "error": describe(error),
                    "away": isinstance(error, ConnectionFault | TimeoutError),
                },
            )

    async def _listen(self) -> None:
        """Turn wake tokens into `changed` while the worker is hungry; hand on a token that came too late."""
        faults = 0
        while True:
            await self._hungry.wait()
            try:
                beat_s = self._options.beat_ms / 1000
                token = await self._bus.blocking("BLPOP", self._wake_key, beat_s, wait_s=beat_s)
                faults = 0
                if token is not None:
                    await asyncio.sleep(self._calm_until - time.monotonic())
                if token is not None and not self._hungry.is_set() and (not self._free() or self._stop.is_set()):
                    await self._bus.execute("LPUSH", self._wake_key, "1")
                elif token is not None:
                    self._changed.set()
            except (ConnectionFault, ServerError):
                faults += 1
                await asyncio.sleep(reconnect_s(faults))

    async def _finish(self) -> None:
        """Let handlers end within the grace, then cancel them and let them tidy up, then do without them."""
        self._hands.give_back()
        await self._handlers_end(self._options.grace_ms)
        self._hands.interrupt("the worker stops")
        await self._handlers_end(self._options.unwind_ms)
        self._hands.abandon()
        await self._settler.flush(time.monotonic() + _SPARE_S)

    async def _handlers_end(self, within_ms: int) -> None:
        """Wait for the handlers for so long at most, and settle what they finish."""
        deadline = time.monotonic() + within_ms / 1000
        while self._hands and time.monotonic() < deadline:
            self._changed.clear()
            await self._settler.flush(deadline)
            await wait(self._changed, max(0.0, deadline - time.monotonic()))


def _one_by_one(call: Call) -> Work:
    async def handle(jobs: list[Job]) -> Answers:
        return [await call(jobs[0])]

    return handle
