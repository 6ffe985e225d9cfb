"""Works the flat backlog in batches that are worth a handler's call.

A batch is claimed when enough jobs wait or when the first of them has waited long enough; an empty backlog is never
handed over. The handler answers per member, a member without an answer is retried, and a handler that raises has its
whole batch retried. Lanes are not served here: their batches are `lanes.claim_batch`, and a `Worker` is fair to them.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from . import claims, keyspace, settlement
from .backoff import Backoff, Exponential
from .claims import MAX_CLAIM
from .connector import Connector
from .effects import EffectBody
from .errors import ConnectionFault, InvalidValue, ServerError
from .jobs import Job
from .observing import Observe, ignore
from .outcome import Complete, Delay, GiveBack, Outcome, Retry
from .pump import Pump
from .settlement import Policy, Settled, Settlement, SettleVerdict
from .waiting import reconnect_s, wait

MISSING = Retry("missing verdict")
_ERROR_TEXT = 500
_SETTLE_TRIES = 5

Verdicts = Mapping[str, Outcome | None]
BatchHandler = Callable[[Sequence[Job]], Awaitable[Verdicts]]


@dataclass(frozen=True, slots=True)
class BatchOptions:
    """How batches are shaped and worked. Times are milliseconds.

    A batch goes out when `min_size` jobs wait, or `timeout_ms` after the first of them was seen; it has at most
    `max_size`. The backlog is looked at every `poll_ms`. The rest means what it means for a worker.
    """

    min_size: int = 10
    max_size: int = MAX_CLAIM
    timeout_ms: int = 1_000
    poll_ms: int = 50
    lease_ms: int = 30_000
    grace_ms: int = 10_000
    max_attempts: int = 5
    max_stalled: int = 3
    backoff: Backoff = field(default_factory=Exponential)
    pump: bool = True

    def __post_init__(self) -> None:
        for name in ("min_size", "max_size", "timeout_ms", "poll_ms", "lease_ms", "max_attempts", "max_stalled"):
            if getattr(self, name) < 1:
                raise InvalidValue(f"batch option {name} must be at least 1, not {getattr(self, name)}")
        if self.grace_ms < 0:
            raise InvalidValue(f"batch option grace_ms must not be negative, not {self.grace_ms}")
        if not self.min_size <= self.max_size <= MAX_CLAIM:
            raise InvalidValue(
                f"batch option max_size={self.max_size} is out of range: use min_size ({self.min_size}) to {MAX_CLAIM}"
            )


@dataclass(frozen=True, slots=True)
class Partition:
    """What became of a batch's members, each id in exactly one of the four, in the order they were given."""

    completed: tuple[str, ...] = ()
    retried: tuple[str, ...] = ()
    dead: tuple[str, ...] = ()
    delayed: tuple[str, ...] = ()


class Shaper:
    """Says how many jobs to claim now. Knows no clock and no server: both come with each question."""

    def __init__(self, options: BatchOptions) -> None:
        self._options = options
        self._opened_ms: float | None = None  # when the first waiting job was seen

    def size(self, depth: int, now_ms: float) -> int:
        """How many of `depth` waiting jobs to hand over at `now_ms`; 0 means to wait on."""
        if depth <= 0:
            self._opened_ms = None
            return 0
        if self._opened_ms is None:
            self._opened_ms = now_ms
        if depth < self._options.min_size and now_ms - self._opened_ms < self._options.timeout_ms:
            return 0
        self._opened_ms = None
        return min(depth, self._options.max_size)


class BatchWorker:
    """One batch worker of one queue, one batch at a time. `await run()` works until `stop()`."""

    def __init__(
        self,
        bus: Connector,
        queue: str,
        handler: BatchHandler,
        *,
        options: BatchOptions | None = None,
        effects: Sequence[EffectBody] = (),
        observe: Observe | None = None,
        on_settled: Callable[[Partition], None] | None = None,
    ) -> None:
        """`handler` gets the jobs of a batch and answers outcomes by job id, None meaning `Complete()`.

        `on_settled` hears of every settled batch; what it raises is reported and changes nothing.
        """
        self._bus = bus
        self._queue = queue
        self._handler = handler
        self._options = options or BatchOptions()
        self._effects = tuple(effects)
        self._policy = Policy(self._options.max_attempts, self._options.backoff)
        self._observe = observe or ignore
        self._on_settled = on_settled
        self._pending = keyspace.of(queue).key("pending")
        self._stop = asyncio.Event()

    def stop(self) -> None:
        """Finish the batch under way within the grace, then let `run` return."""
        self._stop.set()

    async def run(self) -> None:
        """Work until `stop`. Cancelling `run` ends at once: leases lapse and others recover the jobs."""
        pump = Pump(self._bus, self._queue, max_stalled=self._options.max_stalled, observe=self._observe)
        async with asyncio.TaskGroup() as tasks:
            keeper = tasks.create_task(pump.run()) if self._options.pump else None
            await self._work()
            if keeper:
                keeper.cancel()

    async def _work(self) -> None:
        shaper = Shaper(self._options)
        faults = 0
        while not self._stop.is_set():
            pause_s = self._options.poll_ms / 1000
            try:
                size = shaper.size(await self._bus.execute("ZCARD", self._pending), time.monotonic() * 1000)
                jobs = await claims.claim_batch(self._bus, self._queue, size, self._options.lease_ms) if size else ()
                faults = 0
                if jobs:
                    await self._batch(jobs)
                    continue
            except (ConnectionFault, ServerError) as error:
                faults += 1
                self._fault(error)
                pause_s = reconnect_s(faults)
            await wait(self._stop, pause_s)

    async def _batch(self, jobs: Sequence[Job]) -> None:
        self._observe("batch.claimed", {"queue": self._queue, "jobs": len(jobs)})
        outcomes = await self._answer(jobs)
        items = [Settlement(job.id, job.token, outcomes[job.id]) for job in jobs]
        verdicts = await self._settle(items)
        if verdicts is None:
            return  # the leases lapse and another worker recovers the jobs
        answers = {item.job_id: (item.outcome, verdict) for item, verdict in zip(items, verdicts, strict=True)}
        parts = partition([job.id for job in jobs], answers)
        self._observe(
            "batch.settled",
            {"queue": self._queue, **{name: list(getattr(parts, name)) for name in Partition.__slots__}},
        )
        if self._on_settled:
            try:
                self._on_settled(parts)
            except Exception as error:  # a listener never stops the loop
                self._observe("batch.failed", {"queue": self._queue, "jobs": [], "error": error})

    async def _answer(self, jobs: Sequence[Job]) -> dict[str, Outcome]:
        """One outcome per job, whatever the handler does."""
        answered: Verdicts = {}
        problem: BaseException | None = None
        stopped = False

        async def call() -> None:
            nonlocal answered, problem
            try:
                async with asyncio.timeout(_timeout_s(jobs)):
                    answered = await self._handler(jobs)
                if not isinstance(answered, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]  # a handler may return anything
                    raise InvalidValue("a batch handler answers a mapping of job id to outcome")
                for outcome in answered.values():
                    settlement.check(self._queue, outcome or Complete(), self._effects)
            except Exception as error:
                problem = error

        async with asyncio.TaskGroup() as tasks:
            keeper = tasks.create_task(self._renew(jobs))
            work = tasks.create_task(call())
            ending = tasks.create_task(self._stop.wait())
            await asyncio.wait((work, ending), return_when=asyncio.FIRST_COMPLETED)
            if not work.done():
                await asyncio.wait((work,), timeout=self._options.grace_ms / 1000)
                stopped = not work.done()
            for task in (keeper, work, ending):
                task.cancel()
        if stopped:
            return {job.id: GiveBack() for job in jobs}
        if problem is not None:
            ids = [job.id for job in jobs]
            self._observe("batch.failed", {"queue": self._queue, "jobs": ids, "error": problem})
            text = f"{type(problem).__name__}: {problem}"[:_ERROR_TEXT]
            return {job.id: Retry(text) for job in jobs}
        return {job.id: (answered[job.id] or Complete()) if job.id in answered else MISSING for job in jobs}

    async def _settle(self, items: Sequence[Settlement]) -> list[SettleVerdict] | None:
        """Settle, again after a fault: the fence makes a second try harmless. None after too many."""
        for faults in range(1, _SETTLE_TRIES + 1):
            try:
                return await settlement.settle_many(
                    self._bus, self._queue, items, effects=self._effects, policy=self._policy
                )
            except (ConnectionFault, ServerError) as error:
                self._fault(error)
                await asyncio.sleep(reconnect_s(faults))
        return None

    async def _renew(self, jobs: Sequence[Job]) -> None:
        held = [(job.id, job.token) for job in jobs]
        while True:
            await asyncio.sleep(self._options.lease_ms / 3000)
            try:
                lost = await settlement.extend_many(self._bus, self._queue, held, self._options.lease_ms)
            except (ConnectionFault, ServerError) as error:
                self._fault(error)
                continue
            if lost:
                self._observe("batch.lease_lost", {"queue": self._queue, "jobs": lost})
                held = [lease for lease in held if lease[0] not in lost]

    def _fault(self, error: Exception) -> None:
        self._observe("batch.fault", {"queue": self._queue, "error": str(error)})


def partition(ids: Iterable[str], verdicts: Mapping[str, tuple[Outcome | None, SettleVerdict | None]]) -> Partition:
    """Sort a batch's members by what became of them: exhaustive, disjoint, in input order.

    `verdicts` has per id what the handler said (None: `Complete()`) and what the settlement answered. Dead is who is
    dead by the settlement, not who failed; everything unclear, a missing verdict or a lost lease, counts as retried.
    """
    parts: dict[str, list[str]] = {name: [] for name in Partition.__slots__}
    for job_id in dict.fromkeys(ids):
        parts[_part(*verdicts.get(job_id, (MISSING, None)))].append(job_id)
    return Partition(**{name: tuple(members) for name, members in parts.items()})


def _part(outcome: Outcome | None, verdict: SettleVerdict | None) -> str:
    match outcome or Complete(), verdict:
        case Complete(), Settled(state="completed"):
            return "completed"
        case Delay(), Settled(state="scheduled"):
            return "delayed"
        case _, Settled(state="dead"):
            return "dead"
        case _:
            return "retried"


def _timeout_s(jobs: Sequence[Job]) -> float | None:
    """The shortest time limit among the jobs."""
    limits = [job.timeout_ms for job in jobs if job.timeout_ms]
    return min(limits) / 1000 if limits else None
