"""Works a queue in batches that are worth a handler's call, lanes and flat jobs alike.

What a claim brings waits under its lease until enough is there or the first has waited long enough; one batch is worked
at a time, an empty one never. The handler answers per member, a member without an answer is retried, and a handler
that raises has its whole batch retried. The rest is a `Worker`: claims, leases, limits, wake-ups, events and the end.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import cast

from codemojex.engine import validation
from codemojex.engine.backoff import Backoff, Exponential
from codemojex.engine.errors import InvalidValue
from codemojex.engine.jobs.claims import MAX_CLAIM, MAX_LEASE_MS
from codemojex.engine.jobs.effects import EffectBody
from codemojex.engine.jobs.jobs import Job
from codemojex.engine.jobs.outcome import Complete, Delay, Outcome, Retry
from codemojex.engine.jobs.settlement import Settled, SettleVerdict
from codemojex.engine.observer import Observe, observer
from codemojex.engine.transport.connector import Connector
from codemojex.engine.worker.batch_shape import Shaper
from codemojex.engine.worker.calling import Call, RunsIn
from codemojex.engine.worker.middleware import Middleware
from codemojex.engine.worker.worker import Worker, WorkerOptions

MISSING = Retry("missing verdict")

Verdicts = Mapping[str, Outcome | None]
BatchHandler = Callable[[Sequence[Job]], Awaitable[Verdicts] | Verdicts]
End = tuple[Outcome | None, SettleVerdict | None]  # what the handler said, and what the settlement answered


@dataclass(frozen=True, slots=True)
class BatchOptions:
    """How batches are shaped and worked. Times are milliseconds.

    A batch goes out when `min_size` jobs are there, or `timeout_ms` after the first of them was claimed; it has at most
    `max_size`. The rest means what it means for a worker.
    """

    min_size: int = 10
    max_size: int = MAX_CLAIM
    timeout_ms: int = 1_000
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
    runs_in: RunsIn = "thread"

    def __post_init__(self) -> None:
        validation.integer("batch option min_size", self.min_size, 1, MAX_CLAIM)
        validation.integer("batch option max_size", self.max_size, self.min_size, MAX_CLAIM, " (from min_size on)")
        validation.integer("batch option timeout_ms", self.timeout_ms, 1, MAX_LEASE_MS)
        self.worker()

    def worker(self) -> WorkerOptions:
        """The same for the worker underneath. Raises InvalidValue for what no worker takes."""
        shared = {option.name for option in fields(WorkerOptions)} - {"concurrency"}
        return WorkerOptions(concurrency=self.max_size, **{name: getattr(self, name) for name in shared})


@dataclass(frozen=True, slots=True)
class Partition:
    """What became of a batch's members, each id in exactly one of the four, in the order they were given."""

    completed: tuple[str, ...] = ()
    retried: tuple[str, ...] = ()
    dead: tuple[str, ...] = ()
    delayed: tuple[str, ...] = ()


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
        middleware: Sequence[Middleware] = (),
        on_settled: Callable[[Partition], None] | None = None,
    ) -> None:
        """`handler` gets the jobs of a batch and answers outcomes by job id, None meaning `Complete()`.

        `observe(event, data)` and `middleware` are a worker's. `on_settled` hears of every settled batch; what it
        raises is reported and changes nothing.
        """
        options = BatchOptions() if options is None else options
        validation.one_of("options", options, BatchOptions)
        call = _Members("handler", handler, options.runs_in, 1)
        call.begun = self._begin
        if on_settled is not None:
            validation.function("on_settled", on_settled)
        self._queue = queue
        self._observe = observer(observe)
        self._on_settled = on_settled
        self._batch: list[str] = []  # the ids that the handler was given
        self._left: set[str] = set()  # those whose end is not known yet
        self._ends: dict[str, End] = {}
        self._worker = Worker(
            bus,
            queue,
            batch_handler=call,
            shaper=Shaper(options.min_size, options.timeout_ms, options.max_size),
            options=options.worker(),
            effects=effects,
            observe=self._heard,
            middleware=middleware,
        )

    def stop(self) -> None:
        """Finish the batch under way within the grace, give back what waits, then let `run` return."""
        self._worker.stop()

    async def run(self) -> None:
        """Work until `stop`. Cancelling `run` ends at once: leases lapse and others recover the jobs."""
        await self._worker.run()

    def _begin(self, jobs: Sequence[Job]) -> None:
        self._batch = [job.id for job in jobs]
        self._left, self._ends = set(self._batch), {}

    def _heard(self, name: str, data: dict[str, object]) -> None:
        """Pass on what the worker tells, and tell of a batch when its last member has its end."""
        self._observe(name, data)
        job_id = str(data.get("job", ""))
        if name not in ("worker.settled", "worker.lease_lost") or job_id not in self._left:
            return
        self._ends[job_id] = cast("End", (data.get("outcome"), data.get("verdict")))
        self._left.remove(job_id)
        if not self._left:
            self._tell(partition(self._batch, self._ends))

    def _tell(self, parts: Partition) -> None:
        ids = {name: list(getattr(parts, name)) for name in Partition.__slots__}
        self._observe("batch.settled", {"queue": self._queue, **ids})
        if self._on_settled:
            try:
                self._on_settled(parts)
            except Exception as error:  # a listener never stops the loop
                self._observe("batch.failed", {"queue": self._queue, "error": error})


class _Members(Call):
    """A batch handler, called as a worker calls: its mapping becomes a list in the order of the jobs."""

    begun: Callable[[Sequence[Job]], None]

    async def __call__(self, argument: list[Job]) -> Sequence[Outcome | None]:
        self.begun(argument)
        answered: object = await super().__call__(argument)
        if not isinstance(answered, Mapping):
            raise InvalidValue("a batch handler answers a mapping of job id to outcome")
        verdicts = cast("Verdicts", answered)
        return [verdicts.get(job.id, MISSING) for job in argument]


def partition(ids: Iterable[str], verdicts: Mapping[str, End]) -> Partition:
    """Sort a batch's members by what became of them: exhaustive, disjoint, in input order.

    `verdicts` has per id what the handler said (None: `Complete()`) and what the settlement answered. Dead is who is
    dead by the settlement, not who failed; everything unclear, a missing verdict or a lost lease, counts as retried.
    """
    parts: dict[str, list[str]] = {name: [] for name in Partition.__slots__}
    for job_id in dict.fromkeys(ids):
        parts[_part(*verdicts.get(job_id, (MISSING, None)))].append(job_id)
    return Partition(**{name: tuple(members) for name, members in parts.items()})


def _part(outcome: Outcome | None, verdict: SettleVerdict | None) -> str:
    match Complete() if outcome is None else outcome, verdict:
        case Complete(), Settled(state="completed"):
            return "completed"
        case Delay(), Settled(state="scheduled"):
            return "delayed"
        case _, Settled(state="dead"):
            return "dead"
        case _:
            return "retried"
