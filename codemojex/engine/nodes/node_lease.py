"""Leases of node numbers, so that no two processes mint the same id.

A process holds a number from 128 to 1007 for as long as it renews its lease. The lease is counted from before the
request left, so this process stops minting before the server gives the number away; a number that was given back or
lapsed rests a while, for clocks that disagree. A lease that was lost is replaced, by the same number if it is free: the
processes of a server that lost its data keep theirs apart.

Numbers below 128 are left to engines of other makes, whose numbers are written by hand, and small, or hashed from a
name: the hash of an unnamed one is 68. `reservations` keeps more of them free.
"""

from __future__ import annotations

import asyncio
import random
import secrets
import time
from types import TracebackType

from codemojex.engine import validation
from codemojex.engine.clock import Clock
from codemojex.engine.errors import ConnectionFault, EngineError, LeaseLost, OutOfNodes
from codemojex.engine.ids import LEASED_NODES, SCRIPT_NODES, BrandedId, Minter, node_numbers
from codemojex.engine.keyspace import NODES_KEY
from codemojex.engine.observer import Observe, observer
from codemojex.engine.scripts import ENGINE
from codemojex.engine.transport.connector import Connector, connector

NODE_COUNT = SCRIPT_NODES.start
_LONGEST_MS = 24 * 3600 * 1000


class NodeLease:
    """`async with NodeLease(bus) as lease: lease.minter.mint("JOB")`. Renews itself at a third of `lease_ms`.

    A number whose lease ended is not given out again for `rest_ms`. `numbers`: those that this process may get; none of
    them that is reserved.
    """

    def __init__(
        self,
        bus: Connector,
        *,
        clock: Clock | None = None,
        lease_ms: int = 30_000,
        rest_ms: int = 10_000,
        numbers: range = LEASED_NODES,
        key: str = NODES_KEY,
        observe: Observe | None = None,
    ) -> None:
        validation.integer("lease_ms", lease_ms, 30, _LONGEST_MS)
        validation.integer("rest_ms", rest_ms, 0, _LONGEST_MS)
        self._bus = connector("bus", bus)
        self._lease_ms = lease_ms
        self._rest_ms = rest_ms
        self._numbers = node_numbers(numbers)
        self._key = validation.text("key", key, 1)
        self._observe = observer(observe)
        self._token = secrets.token_hex(8)
        self._node = -1
        self._valid_until = 0.0
        self._tasks = asyncio.TaskGroup()
        self._renewal: asyncio.Task[None] | None = None
        self._minter = LeasedMinter(self, clock)

    @property
    def node(self) -> int:
        """The number, while it is surely this process's own. Raises LeaseLost otherwise."""
        if self.lost:
            raise LeaseLost(
                f"node {self._node} is no longer leased to this process: no renewal for {self._lease_ms} ms; "
                "ids can be minted again when the server answers"
            )
        return self._node

    @property
    def lost(self) -> bool:
        """Whether the number may belong to somebody else by now."""
        return self._node < 0 or time.monotonic() >= self._valid_until

    @property
    def minter(self) -> LeasedMinter:
        """The one minter of this lease. Make no other with its number: two would mint the same ids."""
        return self._minter

    async def __aenter__(self) -> NodeLease:
        """Lease a number. Raises OutOfNodes when all are taken, or a connection fault."""
        await self._acquire()
        await self._tasks.__aenter__()
        self._renewal = self._tasks.create_task(self._renew_until_cancelled())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._renewal is not None:
            self._renewal.cancel()
        await self._tasks.__aexit__(None, None, None)  # the body's own error passes as it is
        node, self._node = self._node, -1
        try:
            await self._bus.run(ENGINE.script("node_renew"), [self._key], [node, self._token, 0, self._rest_ms])
        except EngineError as fault:  # it lapses by itself
            self._observe("node.fault", {"node": node, "error": str(fault), "away": isinstance(fault, ConnectionFault)})

    async def _acquire(self) -> None:
        sent = time.monotonic()
        low, count = self._numbers.start, len(self._numbers)
        first = self._node if self._node in self._numbers else random.choice(self._numbers)
        args = [self._token, self._lease_ms, self._rest_ms, first, count, low]
        node = await self._bus.run(ENGINE.script("node_lease"), [self._key], args)
        if node < 0:
            raise OutOfNodes(
                f"all {count} node numbers from {low} on are leased, resting or reserved: stop processes that are not "
                f"needed, wait {(self._lease_ms + self._rest_ms) / 1000:g} s for those of dead ones, or release some"
            )
        self._node = node
        self._valid_until = sent + self._lease_ms / 1000
        self._observe("node.leased", {"node": node})

    async def _renew_until_cancelled(self) -> None:
        while True:
            await asyncio.sleep(self._lease_ms / 3000)
            try:
                await self.renew()
            except EngineError as error:  # the next third of the lease tries again; `lost` speaks up in time
                self._observe(
                    "node.fault", {"node": self._node, "error": str(error), "away": isinstance(error, ConnectionFault)}
                )

    async def renew(self) -> None:
        """Renew now, before it is time: for a server that has lost its data, say."""
        sent = time.monotonic()
        held = await self._bus.run(
            ENGINE.script("node_renew"), [self._key], [self._node, self._token, self._lease_ms, self._rest_ms]
        )
        if held == 1:
            self._valid_until = sent + self._lease_ms / 1000
            return
        self._valid_until = 0.0
        self._observe("node.lost", {"node": self._node})
        await self._acquire()


class LeasedMinter(Minter):
    """Mints ids under a lease; `mint` raises LeaseLost while the lease does not hold."""

    def __init__(self, lease: NodeLease, clock: Clock | None = None) -> None:
        super().__init__(0, clock)  # the number is asked for at every mint
        self._lease = lease

    def mint(self, namespace: str) -> BrandedId:
        self.node = self._lease.node
        return super().mint(namespace)
