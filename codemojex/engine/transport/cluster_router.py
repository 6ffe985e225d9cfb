"""Finds the server of a key, again and again, where servers change.

A command is sent again only when it provably did not run: it never left, or the server refused it. `MOVED` is
followed. `ASK` is not: a script names its queue's prefix and finds its keys by itself, so while a slot moves key by
key it would meet one half of the queue on either side. Such commands wait until the slot has moved, `timeout_s` at
most. After a lost answer the topology is asked before anything else is sent.
"""

from __future__ import annotations

import asyncio
import itertools
import random
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from codemojex.engine.errors import Unavailable, UnknownOutcome
from codemojex.engine.keyspace import slot
from codemojex.engine.transport import key_slots
from codemojex.engine.transport.error_mapping import Moved, Moving
from codemojex.engine.transport.node import Command, Limits, Node, guided_subscriber
from codemojex.engine.transport.pool import Ask
from codemojex.engine.transport.url import Address, ServerAddress

_LOOK_S = 1.0  # how long one server may think about the topology
_LOOK_AGAIN_S = 0.05  # a look that is younger than this need not be repeated
_REDIRECTS = 3  # followed at once; later ones after a pause


class Routed:
    """What a cluster and a replica set have in common: owners of slots that change."""

    def __init__(self, place: ServerAddress, limits: Limits) -> None:
        self._place = place
        self._limits = limits
        self._nodes: dict[Address, Node] = {}
        self._owners: list[Address | None] = []  # by slot; one entry stands for all of them
        self._looking = asyncio.Lock()
        self._looks = 0
        self._looked_at = -1.0
        self._failure: Unavailable | None = None  # why the last look found nothing
        self._doubt = True  # look before the next command
        self._closed = False

    async def find(self) -> list[Address | None]:
        """Ask who owns what. Raises Unavailable."""
        raise NotImplementedError

    async def check(self, ask: Ask) -> None:
        """What every new socket must pass."""
        raise NotImplementedError

    # sending

    async def execute(self, command: Command) -> Any:
        return await self._tried(key_slots.slot(command), lambda node: node.execute(command))

    async def blocking(self, command: Command, wait_s: float) -> Any:
        return await self._tried(key_slots.slot(command), lambda node: node.blocking(command, wait_s))

    async def teach(self, command: Command, key: str | None) -> Any:
        if key is not None:
            return await self._tried(slot(key), lambda node: node.execute(command))
        await self._settled()
        replies = [await node.execute(command) for node in self._primaries()]
        return replies[0]

    async def at(self, key: str, command: Command) -> Any:
        return await self._tried(slot(key), lambda node: node.execute(command))

    async def renew(self, key: str) -> None:
        owner = self._owner(slot(key)) if self._owners else None
        node = self._nodes.pop(owner, None) if owner else None
        self._doubt = True
        if node:
            await node.close()

    async def pipeline(self, commands: Sequence[Command]) -> list[Any]:
        """One round trip per node. What did not run stands in the list; raises Unavailable when nothing did.

        A command without a key goes where the one before it goes, on the same connection: so `WAIT` works.
        """
        replies: list[Any] = [None] * len(commands)
        slots: list[int | None] = []
        for command in commands:
            found = key_slots.slot(command)
            slots.append(slots[-1] if found is None and slots else found)
        deadline = time.monotonic() + self._limits.timeout_s
        left: Sequence[int] = range(len(commands))
        for turn in itertools.count():
            parts: dict[Node, list[int]] = defaultdict(list)
            for i in left:
                parts[await self._node(slots[i])].append(i)
            looks = self._looks
            answers = await _together([self._part(node, [commands[i] for i in parts[node]]) for node in parts])
            left = []
            for (node, part), answer in zip(parts.items(), answers, strict=True):
                for i, reply in zip(part, answer, strict=True):
                    replies[i] = reply
                    if isinstance(reply, Unavailable) and await self._mend(slots[i], node, reply, looks):
                        left.append(i)
            if not left or not await self._pause(replies[left[0]], turn, deadline):
                break
        if all(isinstance(reply, Unavailable) for reply in replies):
            raise replies[0]
        return replies

    async def _part(self, node: Node, commands: Sequence[Command]) -> list[Any]:
        try:
            return await node.pipeline(commands)
        except Unavailable as error:
            return [error] * len(commands)
        except UnknownOutcome:
            self._doubt = True
            raise

    async def _tried(self, at: int | None, attempt: Callable[[Node], Awaitable[Any]]) -> Any:
        deadline = time.monotonic() + self._limits.timeout_s
        for turn in itertools.count():
            node = await self._node(at)
            looks = self._looks
            try:
                return await attempt(node)
            except Unavailable as error:
                if not await self._mend(at, node, error, looks) or not await self._pause(error, turn, deadline):
                    raise
            except UnknownOutcome:
                self._doubt = True
                raise

    # knowing

    async def _mend(self, at: int | None, node: Node, error: Unavailable, looks: int) -> bool:
        """Learn from what `node` refused; whether another attempt has a chance."""
        if isinstance(error, Moving):
            return True
        if isinstance(error, Moved):
            before = self._owner(at)
            if at is not None and before is not None:  # an empty host stands for the one that was asked
                host = error.address.host or before.host
                self._owners[at % len(self._owners)] = Address(host, error.address.port)
            return True
        try:
            await self._look(looks)
        except Unavailable:
            return False
        owner = self._owner(at)
        return owner is not None and self._nodes.get(owner) is not node

    async def _pause(self, error: Unavailable, turn: int, deadline: float) -> bool:
        """Wait before the next attempt; whether there is time for one."""
        if turn < _REDIRECTS and not isinstance(error, Moving):
            return True
        pause_s = random.uniform(0.5, 1.0) * min(0.02 * 2 ** min(turn, 8), 0.25)
        if time.monotonic() + pause_s > deadline:
            return False
        await asyncio.sleep(pause_s)
        return True

    def _owner(self, at: int | None) -> Address | None:
        if at is not None:
            return self._owners[at % len(self._owners)]
        owners = [address for address in self._nodes if address in self._owners] or list(filter(None, self._owners))
        return random.choice(owners) if owners else None

    async def _node(self, at: int | None) -> Node:
        await self._settled()
        owner = self._owner(at)
        if owner is None:
            raise Unavailable(f"no server of the cluster serves slot {at}")
        return self._at(owner)

    def _at(self, address: Address) -> Node:
        if self._closed:
            raise Unavailable("the connector is closed")
        node = self._nodes.get(address)
        if node is None:
            node = self._nodes[address] = Node(self._place.url(address), self._limits, self.check)
        return node

    def _primaries(self) -> list[Node]:
        return [self._at(address) for address in dict.fromkeys(filter(None, self._owners))]

    async def _settled(self) -> None:
        """Look when there is doubt; what was known counts while nobody answers."""
        if self._doubt:
            try:
                await self._look(self._looks)
            except Unavailable:
                if not self._owners:
                    raise
                self._doubt = False

    async def _look(self, looks: int) -> None:
        """Ask for the topology, unless somebody did since `looks` was read: then theirs counts, also a failure."""
        async with self._looking:
            if self._looks != looks or time.monotonic() - self._looked_at < _LOOK_AGAIN_S:
                if self._failure:
                    raise _again(self._failure)
                return
            self._failure = None
            try:
                async with asyncio.timeout(self._limits.timeout_s):
                    self._owners = await self.find()
            except Unavailable as error:
                self._failure = error
            except TimeoutError:
                self._failure = Unavailable("nobody said in time where the servers are")
            self._looks += 1
            self._looked_at = time.monotonic()
            if self._failure:
                raise _again(self._failure)
            self._doubt = False
            gone = [address for address in self._nodes if address not in self._owners]
            nodes = [self._nodes.pop(address) for address in gone]
        for node in nodes:
            await node.close()  # who waits for it is told at once

    def subscriber(self, channel: str | None) -> Any:
        at = None if channel is None else slot(channel)

        async def well(node: Node) -> Node:
            await node.execute(("PING",))
            return node

        return guided_subscriber(lambda: self._tried(at, well))

    async def close(self) -> None:
        self._closed = True
        for node in self._nodes.values():
            await node.close()

    def look_s(self) -> float:
        return min(_LOOK_S, self._limits.timeout_s)


def _again(failure: Unavailable) -> Unavailable:
    """The same for another caller: an exception that is raised twice would tell of both."""
    return type(failure)(str(failure))


async def _together(calls: Sequence[Awaitable[list[Any]]]) -> list[list[Any]]:
    """The results of all calls, in order; the first failure, after every call has ended."""
    if len(calls) == 1:
        return [await calls[0]]
    results = await asyncio.gather(*calls, return_exceptions=True)
    return [_raised(result) if isinstance(result, BaseException) else result for result in results]


def _raised(error: BaseException) -> list[Any]:
    raise error
