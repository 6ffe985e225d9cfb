"""Keeps a queue's time, whoever is busy: due jobs become pending, repeated ones fire, lapsed leases are recovered,
parents in other queues hear of their children, and lanes that stand wrong are put right.

One pump per process and queue is enough and several do no harm: each transition is one script and happens once. That
holds for pumps of this engine. Where another engine's pump empties the same outbox, one of the two must leave it alone:
`deliver=False`.
The pump survives a lost server and tells `observe` what it moved.
"""

from __future__ import annotations

import asyncio

from codemojex.engine import keyspace, validation
from codemojex.engine.errors import ConnectionFault, ServerError
from codemojex.engine.flows import outbox
from codemojex.engine.lanes import lanes
from codemojex.engine.maintenance import promotion, recovery
from codemojex.engine.maintenance.visits import Visits
from codemojex.engine.observer import Observe, observer
from codemojex.engine.repeats import repeats
from codemojex.engine.transport.connector import Connector, connector
from codemojex.engine.waiting import reconnect_s, wait

_BATCH = 200
_LONGEST_BEAT_MS = 3_600_000


class Pump:
    """Promotes, fires, recovers and delivers on `queue` every `beat_ms`, at once again while a full batch was due.

    It also visits some hundred lanes a beat, all pumps of the queue together: what a peer, a lost key or a hand left
    wrong heals without an audit. With `deliver=False` it leaves the outbox to another engine's pump, and does the rest.
    """

    def __init__(
        self,
        bus: Connector,
        queue: str,
        *,
        beat_ms: int = 1_000,
        max_stalled: int = 3,
        deliver: bool = True,
        observe: Observe | None = None,
    ) -> None:
        self._bus = connector("bus", bus)
        self._queue = keyspace.of(queue).queue
        self._beat_ms = validation.integer("beat_ms", beat_ms, 1, _LONGEST_BEAT_MS)
        self._beat_s = self._rest_s = self._beat_ms / 1000
        self._max_stalled = validation.integer("max_stalled", max_stalled, 1, validation.MAX_ATTEMPTS)
        self._delivers = validation.flag("deliver", deliver)
        self._visits = Visits(bus, queue)
        self._observe = observer(observe)
        self._stop = asyncio.Event()

    def stop(self) -> None:
        """End `run` after the present turn."""
        self._stop.set()

    async def run(self) -> None:
        """Pump until `stop`."""
        failures = 0
        while not self._stop.is_set():
            try:
                full = await self._turn()
                failures = 0
                wait_s = 0.0 if full else self._rest_s
            except (ConnectionFault, ServerError) as error:
                failures += 1
                wait_s = reconnect_s(failures)
                self._observe(
                    "pump.fault",
                    {"queue": self._queue, "error": str(error), "away": isinstance(error, ConnectionFault)},
                )
            await wait(self._stop, wait_s)

    async def _turn(self) -> bool:
        promoted = (await promotion.promote(self._bus, self._queue, _BATCH)).jobs
        recovered = await recovery.recover(self._bus, self._queue, limit=_BATCH, max_stalled=self._max_stalled)
        moved = len(recovered.waiting) + len(recovered.dead)
        if promoted or moved:
            self._observe(
                "pump.moved",
                {"queue": self._queue, "promoted": promoted, "recovered": moved, "dead": list(recovered.dead)},
            )
        told = self._delivers and await self._deliver()
        await self._tend()
        name, healed = await self._visits.next()
        if healed:
            self._observe("pump.healed", {"queue": self._queue, "list": name, "members": healed})
        return await self._repeats() or told or promoted >= _BATCH or moved >= _BATCH

    async def _deliver(self) -> bool:
        """Tell parents in other queues; whether more may wait in the outbox."""
        told = await outbox.deliver(self._bus, self._queue, _BATCH)
        if told.entries:
            data: dict[str, object] = {"queue": self._queue, "entries": told.entries, "rejected": told.rejected}
            self._observe("pump.delivered", data)
        return told.full

    async def _tend(self) -> None:
        """Put some lanes right; a call before the beat is over does nothing."""
        for lane, what in await lanes.tend(self._bus, self._queue, beat_ms=self._beat_ms):
            self._observe("pump.lane", {"queue": self._queue, "lane": lane, "what": what})

    async def _repeats(self) -> bool:
        """Fire repeated jobs, and rest no longer than to the next one's slot; whether more may be due now."""
        fired = await repeats.fire_due(self._bus, self._queue)
        if fired.jobs or fired.unreadable:
            jobs = {name: list(ids) for name, ids in fired.jobs.items()}
            self._observe("pump.fired", {"queue": self._queue, "jobs": jobs, "unreadable": list(fired.unreadable)})
        until_slot_s = self._beat_s if fired.next_due_ms is None else fired.next_due_ms / 1000
        self._rest_s = min(self._beat_s, until_slot_s)
        return fired.full
