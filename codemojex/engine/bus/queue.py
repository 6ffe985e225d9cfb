"""A queue as an object: a thin view over the verbs, which mints ids and takes times as people write them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, Generic, TypeVar, cast

from codemojex.engine import keyspace
from codemojex.engine.backoff import Backoff
from codemojex.engine.bus import tasks
from codemojex.engine.bus.durations import Duration, Moment, to_ms, to_unix_ms
from codemojex.engine.bus.payloads import Payloads, T
from codemojex.engine.bus.views import Flows, Lanes, QueueLimits, Repeats, Streams
from codemojex.engine.errors import InvalidValue, ServerError
from codemojex.engine.ids import Minter
from codemojex.engine.inspection import admin, audit, metrics
from codemojex.engine.inspection.audit import Violation
from codemojex.engine.inspection.metrics import Counts, QueueSnapshot
from codemojex.engine.jobs import jobs
from codemojex.engine.jobs.jobs import AdmissionRefused, Dedup, Duplicate, Enqueued, NewJob, Scheduled, Verdict
from codemojex.engine.jobs.outcome import Outcome
from codemojex.engine.observer import Observe
from codemojex.engine.transport.connector import Connector
from codemojex.engine.worker.batch_worker import BatchOptions, Verdicts
from codemojex.engine.worker.calling import RunsIn
from codemojex.engine.worker.worker import WorkerOptions

J = TypeVar("J")


class Queue(Generic[T, J]):
    """A queue of payloads `T`, whose handlers get a `J`: a `Job` for bytes, else a `TypedJob`. See `Bus.queue`."""

    def __init__(
        self, connector: Connector, name: str, payloads: Payloads[T], minter: Minter, observe: Observe | None
    ) -> None:
        self.name = keyspace.of(name).queue
        self.lanes = Lanes(connector, name)
        self.limits = QueueLimits(connector, name)
        self.flows = Flows(connector, name)
        self.repeats = Repeats(connector, name, payloads)
        self.streams = Streams(connector, name, minter, observe)
        self._connector = connector
        self._payloads = payloads
        self._minter = minter

    def new(  # what a job has
        self,
        payload: T,
        *,
        id: str | None = None,
        lane: str | None = None,
        delay: Duration | None = None,
        at: Moment | None = None,
        dedup: str | Dedup | None = None,
        dedup_for: Duration | None = None,
        max_attempts: int | None = None,
        backoff: Backoff | None = None,
        timeout: Duration | None = None,
    ) -> NewJob:
        """A job that is not admitted yet, for `enqueue_many` and flows; the arguments are those of `enqueue`."""
        if delay is not None and at is not None:
            raise InvalidValue("a job takes either delay or at: leave one of them out")
        if isinstance(dedup, str):
            if dedup_for is None:
                raise InvalidValue(f"dedup={dedup!r} has no end: say for how long with dedup_for=60 (seconds), say")
            dedup = Dedup(dedup, to_ms("dedup_for", dedup_for, 1))
        elif dedup_for is not None:
            raise InvalidValue("dedup_for goes with a dedup that is a str: a Dedup has its own window_ms")
        return NewJob(
            self._minter.mint("JOB") if id is None else id,
            self._payloads.encode(payload),
            lane=lane,
            delay_ms=0 if delay is None else to_ms("delay", delay),
            run_at_ms=None if at is None else to_unix_ms("at", at),
            max_attempts=max_attempts,
            backoff=backoff,
            timeout_ms=None if timeout is None else to_ms("timeout", timeout, 1),
            dedup=dedup,
        )

    async def enqueue(  # what a job has
        self,
        payload: T,
        *,
        id: str | None = None,
        lane: str | None = None,
        delay: Duration | None = None,
        at: Moment | None = None,
        dedup: str | Dedup | None = None,
        dedup_for: Duration | None = None,
        max_attempts: int | None = None,
        backoff: Backoff | None = None,
        timeout: Duration | None = None,  # noqa: ASYNC109  # of the job
    ) -> Enqueued | Scheduled | Duplicate:
        """Admit a job. The verdict carries its id, or says whose place it would have taken (`Duplicate.of`).

        Give an `id` of namespace JOB when the call may be repeated; otherwise one is minted. `delay` and `timeout` are
        seconds or a timedelta, `at` is Unix seconds or an aware datetime. While the key `dedup` holds, for `dedup_for`,
        the same key is a Duplicate. Raises InvalidValue before anything is sent, a connection fault, or a refusal.
        """
        job = self.new(
            payload,
            id=id,
            lane=lane,
            delay=delay,
            at=at,
            dedup=dedup,
            dedup_for=dedup_for,
            max_attempts=max_attempts,
            backoff=backoff,
            timeout=timeout,
        )
        verdict = await jobs.admit(self._connector, self.name, job)
        if isinstance(verdict, AdmissionRefused):
            raise ServerError(f"{job.id}: {verdict.reason}")
        return verdict

    async def enqueue_many(self, payloads: Iterable[T | NewJob]) -> list[Verdict]:
        """Admit many jobs in few round trips: payloads, or what `new` made; one verdict each, in input order."""
        given = [job if isinstance(job, NewJob) else self.new(job) for job in payloads]
        return await jobs.admit_many(self._connector, self.name, given)

    def task(
        self,
        *,
        concurrency: int = 16,
        max_attempts: int = 5,
        backoff: Backoff | None = None,
        lease: Duration = 30,
        grace: Duration = 10,
        runs_in: RunsIn = "thread",
        **options: Any,
    ) -> Callable[[Callable[[J], Awaitable[Outcome | None] | Outcome | None]], tasks.QueueTask]:
        """Make a function of a job a task for `Bus.work`: async, or a plain one that `runs_in` a thread or a process.

        The function answers an outcome, None meaning `Complete()`. `lease` and `grace` are seconds or a timedelta; the
        other options are those of WorkerOptions.
        """
        options |= tasks.times("task option", lease=lease, grace=grace)
        if backoff is not None:
            options["backoff"] = backoff
        made = _options(WorkerOptions, concurrency=concurrency, max_attempts=max_attempts, runs_in=runs_in, **options)
        return lambda handler: tasks.single(self.name, self._payloads, handler, made)

    def batch_task(
        self,
        *,
        min_size: int = 10,
        max_size: int = 100,
        wait: Duration = 1,
        max_attempts: int = 5,
        lease: Duration = 30,
        grace: Duration = 10,
        runs_in: RunsIn = "thread",
        **options: Any,
    ) -> Callable[[Callable[[list[J]], Awaitable[Verdicts] | Verdicts]], tasks.QueueBatchTask]:
        """The same for a function of a batch, which answers outcomes by job id.

        A batch goes out when `min_size` jobs are there, or `wait` after the first was claimed.
        """
        options |= tasks.times("task option", lease=lease, grace=grace, timeout=wait)
        made = _options(
            BatchOptions, min_size=min_size, max_size=max_size, max_attempts=max_attempts, runs_in=runs_in, **options
        )
        return lambda handler: tasks.batch(self.name, self._payloads, cast("Any", handler), made)

    async def counts(self) -> Counts:
        """Count everything, at one instant."""
        return await metrics.counts(self._connector, self.name)

    async def snapshot(self, *, top: int = 10) -> QueueSnapshot:
        """Look at everything, with the `top` deepest lanes."""
        return await metrics.snapshot(self._connector, self.name, top=top)

    async def pause(self) -> None:
        """Hand out nothing more; what is in flight may finish."""
        await admin.pause(self._connector, self.name)

    async def resume(self) -> None:
        """Hand out jobs again."""
        await admin.resume(self._connector, self.name)

    async def job(self, job_id: str) -> Mapping[str, bytes] | None:
        """The job's row as it is stored, or None."""
        return await admin.get_job(self._connector, self.name, job_id)

    async def state(self, job_id: str) -> str:
        """`pending`, `active`, `scheduled`, `dead`, `awaiting_children`, `unknown` or `absent`."""
        return await admin.get_job_state(self._connector, self.name, job_id)

    async def remove(self, job_id: str) -> bool:
        """Delete a job wherever it is; False when there is no such job. Raises Locked."""
        return await admin.remove_job(self._connector, self.name, job_id)

    async def reprocess(self, job_id: str) -> bool:
        """Give a dead letter another life; False when there is no such job. Raises WrongState if it is not dead."""
        return await admin.reprocess(self._connector, self.name, job_id)

    async def audit(self, *, repair: bool = False) -> Sequence[Violation]:
        """Everything that is wrong with the queue's books; with `repair` it was set right."""
        return await audit.audit(self._connector, self.name, repair=repair)


_O = TypeVar("_O", WorkerOptions, BatchOptions)


def _options(kind: Callable[..., _O], **given: Any) -> _O:
    try:
        return kind(**given)
    except TypeError as error:
        raise InvalidValue(f"{error}: use the names of WorkerOptions or BatchOptions") from error
