"""Single admissions made in one tick of the event loop travel as one batch.

The first call of a tick makes a ride, which begins in the next one, so the others of the tick join; each caller gets
its own verdict. Bounded: beyond `LIMIT` unanswered jobs a call is refused at once. A caller that is cancelled takes
nobody with it: the batch travels on, and every failure of the ride is raised by the calls that wait for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from codemojex.engine.errors import EngineError, Unavailable
from codemojex.engine.transport.connector import Connector, connector

if TYPE_CHECKING:
    from codemojex.engine.jobs.jobs import NewJob, Verdict

LIMIT = 10_000
_IDLE_QUEUES = 64

Send = Callable[[Connector, str, "Sequence[NewJob]"], "Awaitable[list[Verdict | EngineError]]"]
_shared: WeakKeyDictionary[Connector, dict[str, TickBatcher]] = WeakKeyDictionary()


class TickBatcher:
    """The batcher of one queue on one connector; `shared` hands it out."""

    def __init__(self, queue: str, send: Send) -> None:
        # The connector comes with each call: holding it here would keep every connector alive for ever.
        self._queue = queue
        self._send = send
        self._joining: list[tuple[NewJob, asyncio.Future[Verdict]]] = []
        self._rides: set[asyncio.Task[None]] = set()
        self.unanswered = 0

    async def admit(self, bus: Connector, job: NewJob) -> Verdict:
        """Admit one job. Raises what the server refused, and Unavailable when too many calls wait already."""
        if self.unanswered >= LIMIT:
            raise Unavailable(f"{LIMIT} admissions to queue {self._queue!r} are unanswered: slow down and try again")
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Verdict] = loop.create_future()
        self._joining.append((job, answer))
        self.unanswered += 1
        if len(self._joining) == 1:
            ride = loop.create_task(self._ride(bus))
            self._rides.add(ride)
            ride.add_done_callback(self._ended)
        return await answer

    async def _ride(self, bus: Connector) -> None:
        batch, self._joining = self._joining, []
        verdicts: Sequence[Verdict | BaseException]
        try:
            verdicts = await self._send(bus, self._queue, [job for job, _ in batch])
        except BaseException as error:  # whatever it is, the callers hear it
            verdicts = [error] * len(batch)
        self.unanswered -= len(batch)
        for (_, answer), verdict in zip(batch, verdicts, strict=True):
            if answer.done():
                continue
            if isinstance(verdict, asyncio.CancelledError):
                answer.cancel()
            elif isinstance(verdict, BaseException):
                answer.set_exception(verdict)
            else:
                answer.set_result(verdict)

    def _ended(self, ride: asyncio.Task[None]) -> None:
        self._rides.discard(ride)
        if ride.cancelled():  # before it began, so it has answered nobody
            batch, self._joining = self._joining, []
            self.unanswered -= len(batch)
            for _, answer in batch:
                answer.cancel()


def batcher_of(bus: Connector, queue: str, send: Send) -> TickBatcher:
    """The batcher of this connection and queue; idle ones are forgotten when there are many."""
    queues = _shared.setdefault(connector("bus", bus), {})
    found = queues.get(queue)
    if found is None:
        if len(queues) >= _IDLE_QUEUES:
            for name in [name for name, admission in queues.items() if not admission.unanswered]:
                del queues[name]
        found = queues[queue] = TickBatcher(queue, send)
    return found
