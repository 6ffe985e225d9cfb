"""For tests of programs that use the engine: a queue of one's own, a bad network, a worker that stops by itself.

`fresh_queue` names a queue that nobody else has and removes every trace of it. `FaultyConnector` refuses commands
before they leave and loses answers of commands that ran, by a seed. `run_until_idle` works until nothing is left to
do now. It promises nothing about time: what is scheduled for later stays there.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
import uuid
from collections.abc import AsyncGenerator, Sequence
from typing import Any, Protocol

from codemojex.engine import keyspace, validation
from codemojex.engine.errors import Unavailable, UnknownOutcome
from codemojex.engine.flows import outbox
from codemojex.engine.inspection import metrics
from codemojex.engine.jobs import registry
from codemojex.engine.maintenance import promotion
from codemojex.engine.transport.connector import Connector, connector
from codemojex.engine.transport.node import Command
from codemojex.engine.transport.topology import Transport

_CHUNK = 500
_LOOK_S = 0.01
_MAX_SEED = 2**63


@contextlib.asynccontextmanager
async def fresh_queue(bus: Connector, prefix: str = "test") -> AsyncGenerator[str, None]:
    """A queue name of the caller's own; every key of it is deleted at the end, also after a failure."""
    queue = f"{prefix}-{uuid.uuid4().hex[:16]}"
    keyspace.of(queue)
    try:
        yield queue
    finally:
        await purge(bus, queue)


async def purge(bus: Connector, queue: str) -> int:
    """Delete every key of a queue, whatever its state; how many keys. Scans the server: for tests only."""
    prefix, total, cursor = keyspace.of(queue).prefix, 0, b"0"
    while True:
        cursor, keys = await bus.execute("SCAN", cursor, "MATCH", f"{prefix}*", "COUNT", _CHUNK)
        if keys:
            total += await bus.execute("UNLINK", *keys)
        if cursor == b"0":
            break
    await registry.forget(bus, queue)
    return total


class Runs(Protocol):
    """A `Worker`, a `BatchWorker`, or what works like them."""

    async def run(self) -> None: ...
    def stop(self) -> None: ...


async def run_until_idle(
    bus: Connector, queue: str, *workers: Runs, timeout_s: float = 10.0, ahead_ms: int = 0
) -> None:
    """Run the workers until nothing is in flight and nothing can be claimed, then stop them in order.

    What is scheduled, or rests, for longer than `ahead_ms` from now does not count; nor do paused lanes, lanes at
    their ceiling, or a paused queue. Raises TimeoutError, with what is left, after `timeout_s`. Nobody else should
    admit to the queue meanwhile.
    """
    end = time.monotonic() + timeout_s
    left: str | None = None
    async with asyncio.TaskGroup() as tasks:
        for worker in workers:
            tasks.create_task(worker.run())
        try:
            while True:
                left = await _left(bus, queue, ahead_ms)
                if left is None or time.monotonic() > end:
                    break
                await asyncio.sleep(_LOOK_S)
        finally:
            for worker in workers:
                worker.stop()
    if left is not None:
        raise TimeoutError(f"queue {queue!r} is not idle after {timeout_s:g} s: {left}")


async def _left(bus: Connector, queue: str, ahead_ms: int) -> str | None:
    """What there is to do, or None."""
    # One look at one instant: with nothing to claim and nothing in flight, only the outbox and the schedule bring work.
    counts = await metrics.counts(bus, queue)
    if counts.active:
        return f"{counts.active} jobs are in flight"
    if not counts.paused and (counts.flat or counts.lanes_serviceable):
        return f"{counts.flat} flat jobs and {counts.lanes_serviceable} lanes wait to be served (over a limit?)"
    if (await outbox.deliver(bus, queue)).entries:
        return "parents had to be told"
    if counts.paused:
        return None
    promoted = await promotion.promote(bus, queue)
    if promoted.jobs or (promoted.next_due_ms is not None and promoted.next_due_ms <= ahead_ms):
        return "jobs or lanes are due"
    return None


class FaultyConnector(Connector):
    """A connector over another one's sockets that fails as networks do; `bus` stays usable beside it.

    Of all commands a share of `refuse` never leaves (Unavailable), and of the others a share of `lose` runs and its
    answer is lost (UnknownOutcome). `seed` makes the sequence of faults the same each time. The rates may be changed at
    any time; `refused` and `lost` count. Blocking waits are only refused. Close the connector underneath, not this one.
    """

    def __init__(self, bus: Connector, *, seed: int, refuse: float = 0.1, lose: float = 0.1) -> None:
        for name, share in (("refuse", refuse), ("lose", lose)):
            validation.number(name, share, 0, 1)
        validation.integer("seed", seed, -_MAX_SEED, _MAX_SEED)
        connector("bus", bus)
        super().__init__(_Faulty(bus._transport, self), bus.opened)
        self.refuse, self.lose = refuse, lose
        self.refused = self.lost = 0
        self._chance = random.Random(seed)

    async def close(self) -> None:
        """Do nothing: the sockets belong to the connector underneath."""

    def leave(self, what: str) -> None:
        """Raise Unavailable when this command shall not leave."""
        if self._chance.random() < self.refuse:
            self.refused += 1
            raise Unavailable(f"refused by the test before sending: {what}")

    def answer(self, what: str) -> None:
        """Raise UnknownOutcome when the answer to this command shall be lost."""
        if self._chance.random() < self.lose:
            self.lost += 1
            raise UnknownOutcome(f"the answer was lost by the test: {what}")


class _Faulty:
    """The way to the servers, with the faults that its connector draws."""

    def __init__(self, way: Transport, faults: FaultyConnector) -> None:
        self._way = way
        self._faults = faults
        self.teach = way.teach
        self.at = way.at
        self.renew = way.renew
        self.subscriber = way.subscriber
        self.close = way.close

    async def execute(self, command: Command) -> Any:  # a reply has no narrower type
        self._faults.leave(str(command[0]))
        reply = await self._way.execute(command)
        self._faults.answer(str(command[0]))
        return reply

    async def pipeline(self, commands: Sequence[Command]) -> list[Any]:
        self._faults.leave(f"{len(commands)} commands")
        replies = await self._way.pipeline(commands)
        self._faults.answer(f"{len(commands)} commands")
        return replies

    async def blocking(self, command: Command, wait_s: float) -> Any:  # as above
        self._faults.leave(str(command[0]))
        return await self._way.blocking(command, wait_s)
