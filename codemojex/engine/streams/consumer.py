"""Consumer groups: every record of a stream reaches one handler of the group at least once.

A reader first finishes what it left behind, takes over what dead readers left, and waits for new records without
polling. Entries that fail are tried again, each alone and after a growing delay, so they do not block new ones;
after a bounded number of deliveries they go to the stream's quarantine. Redelivered entries come out of order.
"""

from __future__ import annotations

import asyncio
import math
import random
import time
from collections.abc import Awaitable, Callable, Collection, Coroutine, Mapping
from dataclasses import dataclass
from typing import Any, cast

from codemojex.engine import keyspace, validation
from codemojex.engine.error_text import CANCELLED, describe, plain
from codemojex.engine.errors import ConnectionFault, EngineError, InvalidValue
from codemojex.engine.observer import Observe, observer
from codemojex.engine.streams.consumer_commands import Entries, read_quarantine
from codemojex.engine.streams.record import Record
from codemojex.engine.transport.connector import Connector
from codemojex.engine.waiting import interrupted

__all__ = ["GroupOptions", "GroupReader", "Handler", "TryLater", "read_quarantine"]
Handler = Callable[[list[Record]], Awaitable[Collection[str] | None]]

_MOST = 30 * 86_400_000  # of every option: as ms, thirty days
_MAX_PAUSE_MS = 5_000
_GROUP_GONE = ("NOGROUP", "UNBLOCKED")
_HOPELESS = ("WRONGTYPE", "NOPERM")


class TryLater(Exception):
    """Raised by a handler whose surroundings failed, not the entries: they come again and no delivery is charged."""


@dataclass(frozen=True, slots=True)
class GroupOptions:
    """How a reader reads. Times are milliseconds.

    `start`: where a group begins that does not exist yet, `head` (all records) or `new`. `batch`: most records in
    one call of the handler. `max_deliveries`: after so many an entry is poison. `claim_idle_ms`: a reader that does
    not touch its entries for so long is dead; a living one touches them at a third of it. `block_ms`: longest wait
    for new records in one command. `drop_idle_ms`: silent readers without entries are forgotten after so long.
    """

    start: str = "head"
    batch: int = 100
    max_deliveries: int = 5
    retry_base_ms: int = 500
    retry_cap_ms: int = 30_000
    claim_idle_ms: int = 30_000
    block_ms: int = 5_000
    handler_timeout_ms: int = 60_000
    drop_idle_ms: int = 600_000
    quarantine_len: int = 1_000

    def __post_init__(self) -> None:
        validation.choice("start", self.start, "head", "new")
        for name in self.__slots__:
            if name != "start":
                validation.integer(name, getattr(self, name), 1, 1_000 if name == "batch" else _MOST)


class GroupReader:
    """One consumer of a group. `consumer` must be unique among living readers; a restarted one may keep its name.

    `handler` gets a list of records and returns None when all are done, or the ids of those that failed (a mapping
    may add their error texts). What it raises fails the whole list, as does an answer that names anything else; only
    `TryLater` and connection faults charge nothing. `observe(event, data)` hears of everything that an operator wants
    to see.
    """

    def __init__(  # noqa: PLR0917  # the five names say which entries, the sixth what to do with them
        self,
        bus: Connector,
        queue: str,
        stream: str,
        group: str,
        consumer: str,
        handler: Handler,
        *,
        options: GroupOptions | None = None,
        observe: Observe | None = None,
    ) -> None:
        keyspace.group_name("group", group)
        keyspace.group_name("consumer", consumer)
        validation.awaited("handler", handler)
        options = GroupOptions() if options is None else options
        validation.one_of("options", options, GroupOptions)
        self._options = options
        self._entries = Entries(bus, queue, stream, group, consumer, batch=self._options.batch)
        self._group = group
        self._handler = handler
        self._observe = observer(observe)
        self._stop = asyncio.Event()
        self._claim_at = 0.0
        self._retry_at = math.inf  # nothing failed yet
        self._retry_from = "-"
        self._next_retry_ms = math.inf

    def stop(self) -> None:
        """Finish the handler's present call, then let `run` return."""
        self._stop.set()

    async def run(self) -> None:
        """Read until `stop`. Survives lost servers and vanished groups; raises only what no retry can mend."""
        faults = 0
        fresh = True  # of a start, a lost answer or a hindered handler: what is pending here comes before new records
        while not self._stop.is_set():
            try:
                if fresh:
                    await self._entries.create(self._options.start)
                    await self._whole_backlog()
                    fresh = False
                await self._turn()
                faults = 0
            except (EngineError, TryLater) as error:
                text = plain(error)
                if text.startswith(_HOPELESS):
                    raise
                fresh = True
                if text.startswith(_GROUP_GONE):
                    self._tell("recreated", error=text)
                    continue
                faults += 1
                self._trouble(error)
                cap_ms = min(self._options.retry_base_ms * 2 ** min(faults - 1, 20), _MAX_PAUSE_MS)
                await self._until_stop(asyncio.sleep(random.uniform(0.5, 1.0) * cap_ms / 1000))
        try:
            await self._whole_backlog(untried_only=True)  # what an abandoned wait may have handed out
        except (EngineError, TryLater) as error:
            self._tell("fault", error=plain(error), away=isinstance(error, ConnectionFault))

    async def _turn(self) -> None:
        if time.monotonic() >= self._retry_at:
            await self._due_backlog()
        if time.monotonic() >= self._claim_at:
            await self._claim()
        wait_s = min(self._retry_at, self._claim_at) - time.monotonic()
        block_ms = max(1, int(min(self._options.block_ms, wait_s * 1000)))
        entries = await self._until_stop(self._entries.new(block_ms))
        if entries:
            await self._handle(entries)

    async def _whole_backlog(self, untried_only: bool = False) -> None:
        """Every entry that is pending here, once, page by page, due or not; `untried_only`: delivered at most once."""
        start = "-"
        while True:
            page = await self._entries.pending(start)
            due = {p.id: p.deliveries for p in page if p.deliveries <= 1 or not untried_only}
            await self._again(due, even_stopped=untried_only)
            if len(page) < self._options.batch or (self._stop.is_set() and not untried_only):
                return
            start = "(" + page[-1].id

    async def _due_backlog(self) -> None:
        """One page of the entries that are pending here, those of it whose delay is over."""
        page = await self._entries.pending(self._retry_from)
        waits = {p.id: self._delay_ms(p.deliveries) - p.idle_ms for p in page}
        self._next_retry_ms = min(self._next_retry_ms, *(w for w in waits.values() if w > 0), math.inf)
        if len(page) == self._options.batch:
            self._retry_from = "(" + page[-1].id
        else:  # the sweep is over: sleep until the first of all is due
            self._retry_at = time.monotonic() + self._next_retry_ms / 1000
            self._retry_from, self._next_retry_ms = "-", math.inf
        await self._again({p.id: p.deliveries for p in page if waits[p.id] <= 0})

    def _delay_ms(self, deliveries: int) -> int:
        return min(self._options.retry_base_ms * 2 ** min(max(deliveries - 1, 0), 20), self._options.retry_cap_ms)

    async def _again(self, due: Mapping[str, int], even_stopped: bool = False) -> None:
        if due:
            await self._redeliver(await self._entries.take(due), even_stopped)

    async def _claim(self) -> None:
        """Take over one page of what silent readers hold, and forget readers that are silent and hold nothing."""
        idle_ms = self._options.claim_idle_ms
        page = await self._entries.take_over(idle_ms)
        self._claim_at = time.monotonic() + (random.uniform(0.5, 1.0) * idle_ms / 2000 if page.last else 0)
        if page.trimmed:
            self._tell("trimmed", count=page.trimmed)
        if page.records:
            self._tell("claimed", count=len(page.records))
            await self._redeliver(page.records)
        if page.last and (dropped := await self._entries.drop_silent(self._options.drop_idle_ms)):
            self._tell("consumers_dropped", consumers=dropped)

    async def _redeliver(self, records: list[Record], even_stopped: bool = False) -> None:
        """Entries that were out before are handled one by one, so that a bad one fails alone."""
        untried = [r for r in records if r.deliveries <= 1]
        if untried:
            await self._handle(untried)
        for entry in records:
            if entry.deliveries > self._options.max_deliveries:
                await self._quarantine(entry, "delivered too often without an answer")
            elif entry.deliveries > 1 and (even_stopped or not self._stop.is_set()):
                await self._handle([entry])

    async def _handle(self, records: list[Record]) -> None:
        failed: Mapping[str, str]
        try:
            failed = await self._call(records)
        except (TryLater, ConnectionFault):
            await self._entries.uncharge(records)
            raise
        except Exception as error:  # whatever a handler raises is the entries' failure
            failed = dict.fromkeys((r.id for r in records), describe(error))
        done = [r for r in records if r.id not in failed]
        if done:
            await self._entries.acknowledge(done)
            self._tell("handled", count=len(done))
        for entry in records:
            if entry.id in failed:
                self._tell("failed", id=entry.id, deliveries=entry.deliveries, error=failed[entry.id])
                if entry.deliveries >= self._options.max_deliveries:
                    await self._quarantine(entry, failed[entry.id])
                else:
                    due = time.monotonic() + self._delay_ms(entry.deliveries) / 1000
                    self._retry_at = min(self._retry_at, due)

    async def _call(self, records: list[Record]) -> Mapping[str, str]:
        """The handler's answer as error texts by id, while the entries are kept from being taken over."""
        problem: Exception | None = None
        answer: object = None
        async with asyncio.TaskGroup() as tasks:
            keeper = tasks.create_task(self._keep([r.stream_id for r in records]))
            limit = asyncio.timeout(self._options.handler_timeout_ms / 1000)
            try:
                async with limit:
                    answer = await self._handler(records)
            except asyncio.CancelledError:
                if interrupted():
                    raise
                problem = RuntimeError(CANCELLED)
            except TimeoutError as error:
                expired = TimeoutError(f"timed out after {self._options.handler_timeout_ms} ms")
                problem = expired if limit.expired() else error
            except (KeyboardInterrupt, SystemExit):
                raise
            except BaseException as error:
                problem = error if isinstance(error, Exception) else RuntimeError(describe(error))
            finally:
                keeper.cancel()
        if problem is not None:
            raise problem
        return _failures(answer, {record.id for record in records})

    async def _keep(self, stream_ids: list[str]) -> None:
        while True:
            await asyncio.sleep(self._options.claim_idle_ms / 3000)
            try:
                await self._entries.touch(stream_ids)
            except EngineError as error:
                self._tell("fault", error=str(error), away=isinstance(error, ConnectionFault))

    async def _quarantine(self, entry: Record, error: str) -> None:
        await self._entries.set_aside(entry, error, self._options.quarantine_len)
        self._tell("quarantined", id=entry.id, deliveries=entry.deliveries, error=error)

    async def _until_stop(self, work: Coroutine[Any, Any, list[Record] | None]) -> list[Record] | None:
        """The result of `work`, or None when `stop` came first."""
        problem: Exception | None = None
        result: list[Record] | None = None

        async def guarded() -> None:
            nonlocal problem, result
            try:
                result = await work
            except Exception as error:
                problem = error

        async with asyncio.TaskGroup() as tasks:
            worker, stopped = tasks.create_task(guarded()), tasks.create_task(self._stop.wait())
            await asyncio.wait((worker, stopped), return_when=asyncio.FIRST_COMPLETED)
            worker.cancel()
            stopped.cancel()
        if problem is not None:
            raise problem
        return result

    def _trouble(self, error: EngineError | TryLater) -> None:
        if isinstance(error, TryLater):
            self._tell("later", error=plain(error))
        else:
            self._tell("fault", error=plain(error), away=isinstance(error, ConnectionFault))

    def _tell(self, event: str, **data: object) -> None:
        self._observe(f"group.{event}", {"stream": self._entries.key, "group": self._group, **data})


def _failures(answer: object, known: Collection[str]) -> Mapping[str, str]:
    """The error texts by id that a handler reported. Raises InvalidValue for an answer that does not name its records:
    what failed is unknown then, so nothing of it may be acknowledged."""
    if answer is None:
        return {}
    if not isinstance(answer, Collection) or isinstance(answer, str | bytes):
        raise InvalidValue(f"the handler answered {plain(answer)[:80]}: return None, or the ids of failed records")
    ids = cast("Collection[object]", answer)
    for given in ids:
        if given not in known:
            raise InvalidValue(
                f"the handler reported {plain(given)[:80]}, which is no id of its records: use record.id"
            )
    if isinstance(ids, Mapping):
        return {str(given): plain(text) for given, text in cast("Mapping[object, object]", ids).items()}
    return {str(given): "the handler reported a failure" for given in ids}
