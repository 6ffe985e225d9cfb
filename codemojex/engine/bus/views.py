"""What hangs on a queue object: its lanes, limits, flows, repeats and streams. Each method is one verb of a room."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Generic, Literal, TypeVar

from codemojex.engine.bus.durations import Duration, Moment, to_ms, to_unix_ms
from codemojex.engine.bus.payloads import Payloads
from codemojex.engine.flows import flows
from codemojex.engine.flows.flows import Added, Flow
from codemojex.engine.ids import BrandedId, Minter
from codemojex.engine.jobs.jobs import MAX_LAST_MS, AdmissionRefused, Duplicate
from codemojex.engine.lanes import lanes, limits
from codemojex.engine.lanes.lanes import Explanation
from codemojex.engine.observer import Observe
from codemojex.engine.repeats import repeats
from codemojex.engine.repeats.recurrence import CatchUp, Cron, Every, One
from codemojex.engine.repeats.repeats import Repeat
from codemojex.engine.streams import streams
from codemojex.engine.streams.consumer import GroupOptions, GroupReader, Handler
from codemojex.engine.streams.streams import Fields, MaxLen, MinId, Record, Trimmed
from codemojex.engine.transport.connector import Connector

T = TypeVar("T")


class _View:
    def __init__(self, connector: Connector, queue: str) -> None:
        self._connector = connector
        self._queue = queue


class Lanes(_View):
    """The lanes of a queue."""

    async def limit(self, lane: str, n: int | None) -> None:
        """At most `n` jobs of the lane in flight; None removes the ceiling."""
        await lanes.limit(self._connector, self._queue, lane, n)

    async def weight(self, lane: str, n: int | None) -> None:
        """Serve up to `n` jobs of the lane per turn; None means one."""
        await lanes.weight(self._connector, self._queue, lane, n)

    async def pause(self, lane: str) -> None:
        """Stop serving the lane; its backlog and what is in flight stay."""
        await lanes.pause(self._connector, self._queue, lane)

    async def resume(self, lane: str) -> None:
        """Serve the lane again."""
        await lanes.resume(self._connector, self._queue, lane)

    async def park(self, lane: str, rest: Duration) -> None:
        """Let the lane rest for so long; a longer rest that runs already stays. 0 ends any rest."""
        await lanes.park(self._connector, self._queue, lane, to_ms("rest", rest))

    async def depth(self, lane: str) -> int:
        """How many jobs wait in the lane."""
        return await lanes.depth(self._connector, self._queue, lane)

    async def move(self, job_id: str, lane: str) -> Literal["moved", "noop", "not_found", "not_pending"]:
        """Move a waiting job to another lane."""
        return await lanes.move(self._connector, self._queue, job_id, lane)

    async def drain(self, lane: str) -> int:
        """Delete the lane's waiting jobs; how many were deleted."""
        return await lanes.drain(self._connector, self._queue, lane)

    async def names(self, limit: int = 10_000) -> list[str]:
        """Up to `limit` lanes that have work or a setting, sorted."""
        return await lanes.names(self._connector, self._queue, limit)

    async def explain(self, lane: str) -> Explanation:
        """Say what decides whether the lane is served, at one instant."""
        return await lanes.explain(self._connector, self._queue, lane)


class QueueLimits(_View):
    """How fast a queue hands out its jobs, over all processes."""

    async def window(self, max_jobs: int, per: Duration) -> None:
        """At most `max_jobs` in every fixed window of that length."""
        await limits.set_rate(self._connector, self._queue, max_jobs, to_ms("per", per, 1))

    async def bucket(self, *, rate: float, burst: int) -> None:
        """At most `burst + rate * T` jobs in any interval of T seconds."""
        await limits.set_bucket(self._connector, self._queue, rate, burst)

    async def clear(self) -> None:
        """The queue has no rate of its own any more."""
        await limits.clear_rate(self._connector, self._queue)

    async def lane_rate(
        self, rate: float | None, burst: int = 1, *, lane: str | None = None, kind: str | None = None
    ) -> None:
        """Pace every lane as a bucket of `rate` per second, or those of one `kind`, or one `lane`; None ends it."""
        await limits.set_lane_rate(self._connector, self._queue, rate, burst, lane=lane, kind=kind)

    async def concurrency(self, n: int | None) -> None:
        """At most `n` jobs of the whole queue in flight; None removes the ceiling."""
        await limits.set_concurrency(self._connector, self._queue, n)

    async def default_lane_limit(self, n: int | None) -> None:
        """At most `n` jobs in flight of each lane that has no limit of its own."""
        await limits.set_default_lane_limit(self._connector, self._queue, n)

    async def wait(self) -> timedelta:
        """How long until the queue's rate allows a job again; spends nothing."""
        return timedelta(milliseconds=await limits.get_rate_limit_ttl(self._connector, self._queue))


class Flows(_View):
    """Jobs that wait for other jobs. The jobs of a `Flow` are made by `Queue.new`."""

    async def add(self, flow: Flow) -> Added | Duplicate:
        """Add a flow. Raises FlowTooDeep, FlowCycle and InvalidValue before anything is sent."""
        return await flows.add(self._connector, self._queue, flow)

    async def add_many(self, many: Iterable[Flow]) -> list[Added | Duplicate | AdmissionRefused]:
        """Add flows, one verdict each in input order."""
        return await flows.add_bulk(self._connector, self._queue, many)

    async def results(self, parent_id: str) -> Mapping[str, bytes]:
        """What the parent's completed children gave it, by id."""
        return await flows.children_values(self._connector, self._queue, parent_id)

    async def failures(self, parent_id: str) -> Mapping[str, str]:
        """The children whose death was the parent's: id to error."""
        return await flows.failures(self._connector, self._queue, parent_id)

    async def waits_for(self, parent_id: str) -> int:
        """How many children the parent still waits for."""
        return await flows.dependencies(self._connector, self._queue, parent_id)


class Repeats(_View, Generic[T]):
    """Jobs that come again."""

    def __init__(self, connector: Connector, queue: str, payloads: Payloads[T]) -> None:
        super().__init__(connector, queue)
        self._payloads = payloads

    async def register(  # what a repeat has
        self,
        name: str,
        schedule: Every | Cron | Duration,
        payload: T,
        *,
        lane: str | None = None,
        catch_up: CatchUp | None = None,
        until: Moment | None = None,
        max_attempts: int | None = None,
        timeout: Duration | None = None,  # noqa: ASYNC109  # of the job
        first: Moment | None = None,
    ) -> bool:
        """Register a job to come again; False when the name is taken, which changes nothing.

        A duration as `schedule` means an interval. `first` is its first slot.
        """
        every = schedule if isinstance(schedule, Every | Cron) else Every(to_ms("schedule", schedule, 1))
        repeat = Repeat(
            name,
            every,
            self._payloads.encode(payload),
            lane=lane,
            catch_up=One() if catch_up is None else catch_up,
            until_ms=None if until is None else to_unix_ms("until", until),
            max_attempts=max_attempts,
            timeout_ms=None if timeout is None else to_ms("timeout", timeout, 1),
        )
        first_at_ms = None if first is None else to_unix_ms("first", first)
        return await repeats.register(self._connector, self._queue, repeat, first_at_ms=first_at_ms)

    async def get(self, name: str) -> Repeat | None:
        """The registered repeat, or None."""
        return await repeats.get(self._connector, self._queue, name)

    async def names(self) -> list[str]:
        """The registered names, the next one due first."""
        return await repeats.names(self._connector, self._queue)

    async def cancel(self, name: str) -> bool:
        """Forget a repeat; False when it was not registered. Jobs that it fired stay."""
        return await repeats.cancel(self._connector, self._queue, name)


class Streams(_View):
    """The event streams of a queue."""

    def __init__(self, connector: Connector, queue: str, minter: Minter, observe: Observe | None) -> None:
        super().__init__(connector, queue)
        self._minter = minter
        self._observe = observe

    async def append(self, name: str, fields: Fields) -> BrandedId:
        """Append one record and return its id. Raises UnknownOutcome when it may or may not be in."""
        return await streams.append(self._connector, self._queue, name, fields, self._minter)

    async def read(self, name: str, start: str = "-", end: str = "+", *, count: int = 100) -> list[Record]:
        """Up to `count` records in order, from stream id `start` to `end`, both inclusive."""
        return await streams.read(self._connector, self._queue, name, start, end, count=count)

    def scan(self, name: str, start: str = "-", end: str = "+") -> AsyncIterator[Record]:
        """Every record of the range in order, read page by page."""
        return streams.scan(self._connector, self._queue, name, start, end)

    async def since(self, name: str, moment: Moment, *, count: int = 10_000) -> Sequence[Record]:
        """The records minted at that moment or later."""
        since_ms = min(to_unix_ms("moment", moment), MAX_LAST_MS)
        return await streams.read_since(self._connector, self._queue, name, since_ms, count=count)

    async def trim(self, name: str, window: MaxLen | MinId) -> Trimmed:
        """Delete the records outside of the window."""
        return await streams.trim(self._connector, self._queue, name, window)

    def reader(
        self, name: str, group: str, consumer: str, handler: Handler, *, options: GroupOptions | None = None
    ) -> GroupReader:
        """One reader of a group, for `bus.work`. `consumer` must be unique among living readers."""
        return GroupReader(
            self._connector, self._queue, name, group, consumer, handler, options=options, observe=self._observe
        )
