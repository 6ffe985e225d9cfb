"""The topologies: one server, a cluster, a replica set behind Sentinel; each knows how to find its servers.

What all of them share, sending and learning from refusals, is in `routing`. Questions about the topology go over
sockets of their own and have a deadline of a second.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any, Protocol

from codemojex.engine.errors import AccessDenied, EngineError, Unavailable
from codemojex.engine.keyspace import VERSION_KEY, slot
from codemojex.engine.transport.cluster_router import Routed
from codemojex.engine.transport.error_mapping import Moved, NeverSent, as_error
from codemojex.engine.transport.node import Command, Limits, Node, ask_once, fence, primary_fence
from codemojex.engine.transport.pool import Ask
from codemojex.engine.transport.url import Address, ServerAddress

_SLOTS = 16384
_PART_OF_A_CLUSTER = "the server is a node of a cluster: write its address as cluster://host:port"

_OF_SENTINEL = "it refuses the user or the password: give its own as ?sentinel_username=…&sentinel_password=…"


class Transport(Protocol):
    """What the connector sends through."""

    async def execute(self, command: Command) -> Any: ...  # a reply has no narrower type
    async def blocking(self, command: Command, wait_s: float) -> Any: ...
    async def pipeline(self, commands: Sequence[Command]) -> list[Any]: ...
    async def teach(self, command: Command, key: str | None) -> Any: ...
    async def at(self, key: str, command: Command) -> Any: ...
    async def renew(self, key: str) -> None: ...
    def subscriber(self, channel: str | None) -> Any: ...
    async def close(self) -> None: ...


def open_transport(place: ServerAddress, limits: Limits) -> Transport:
    """The way to the servers of `place`. Nothing is connected yet."""
    if place.kind == "single":
        return Single(place.single, limits)
    return Cluster(place, limits) if place.kind == "cluster" else Sentinels(place, limits)


class Single:
    """One server at one address."""

    def __init__(self, url: str, limits: Limits) -> None:
        self._url = url
        self._limits = limits
        self._node = Node(url, limits, self._check)

    async def execute(self, command: Command) -> Any:
        try:
            return await self._node.execute(command)
        except Moved as error:
            raise Unavailable(_PART_OF_A_CLUSTER) from error
        except Unavailable:
            await self._node.rest()  # a name may lead elsewhere by now
            raise

    async def blocking(self, command: Command, wait_s: float) -> Any:
        return await self._node.blocking(command, wait_s)

    async def pipeline(self, commands: Sequence[Command]) -> list[Any]:
        replies = await self._node.pipeline(commands)
        if any(isinstance(reply, Unavailable) for reply in replies):
            await self._node.rest()
        return replies

    async def teach(self, command: Command, key: str | None) -> Any:
        return await self.execute(command)

    async def at(self, key: str, command: Command) -> Any:
        return await self.execute(command)

    async def renew(self, key: str) -> None:
        old = self._node
        if not old.closed:
            self._node = Node(self._url, self._limits, self._check)
            await old.close()

    def subscriber(self, channel: str | None) -> Any:
        return self._node.subscriber()

    async def close(self) -> None:
        await self._node.close()

    async def _check(self, ask: Ask) -> None:
        try:
            await fence(ask)
        except Exception as error:  # the client's own; told apart by the engine's words
            if isinstance(as_error(error), Moved):
                raise NeverSent(_PART_OF_A_CLUSTER) from error
            raise


class Cluster(Routed):
    """A Valkey cluster: each slot has a primary; keyless commands go to any."""

    async def find(self) -> list[Address | None]:
        known = list(dict.fromkeys(filter(None, self._owners)))
        random.shuffle(known)
        problem: EngineError = Unavailable("the cluster is not known")
        for seed in dict.fromkeys([*known, *self._place.seeds]):
            try:
                reply = await ask_once(self._place.seed_url(seed), self.look_s(), "CLUSTER", "SLOTS")
            except EngineError as error:
                problem = error
                continue
            owners: list[Address | None] = [None] * _SLOTS
            for first, last, primary, *_ in reply:
                host = primary[0].decode() if primary[0] else seed.host  # none stands for the one that was asked
                owners[first : last + 1] = [Address(host, primary[1])] * (last - first + 1)
            if any(owners):
                return owners
        raise _nobody("no node of the cluster answered", problem)

    async def check(self, ask: Ask) -> None:
        """The fence; its key lives on one node, and every other node says which."""
        try:
            await fence(ask)
        except Exception as error:  # the client's own; told apart by the engine's words
            moved = as_error(error)
            if not isinstance(moved, Moved):
                raise
            address = moved.address if moved.address.host else self._owner(slot(VERSION_KEY)) or moved.address
            try:
                await fence(self._at(address).ask)
            except Exception as again:
                if isinstance(as_error(again), Unavailable):  # the key moves at this moment
                    raise NeverSent(f"the version key {VERSION_KEY} is on its way: {again}") from again
                raise


class Sentinels(Routed):
    """A primary with replicas; its Sentinels know which server it is."""

    async def find(self) -> list[Address | None]:
        problem: EngineError = Unavailable("no Sentinel is known")
        for seed in self._place.seeds:
            try:
                address = await self._named(seed)
                role = await ask_once(self._place.url(address), self.look_s(), "ROLE")
                if role[0] == b"master":
                    return [address]
                problem = Unavailable("the Sentinel names a server that is not a primary (yet)")
            except EngineError as error:
                problem = error
        raise _nobody("no Sentinel names a primary that answers", problem)

    async def _named(self, seed: Address) -> Address:
        """The primary, as the Sentinel at `seed` knows it."""
        question = "SENTINEL", "GET-MASTER-ADDR-BY-NAME", self._place.service
        try:
            reply = await ask_once(self._place.seed_url(seed), self.look_s(), *question)
        except AccessDenied as error:
            raise AccessDenied(_OF_SENTINEL) from error
        if reply is None:
            raise Unavailable(f"the Sentinel knows no service {self._place.service!r}")
        return Address(reply[0].decode(), int(reply[1]))

    async def check(self, ask: Ask) -> None:
        await primary_fence(ask)


def _nobody(text: str, last: EngineError) -> Unavailable:
    """Nobody could be asked; that a password is refused stays what it is."""
    kind = AccessDenied if isinstance(last, AccessDenied) else Unavailable
    return kind(f"{text}: {last}")
