"""The bus: one connection to the servers, a node number for ids, queues as objects, and the work of a process."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Any, TypeVar, cast, overload

from codemojex.engine.bus import working
from codemojex.engine.bus.durations import Duration, to_ms
from codemojex.engine.bus.payloads import Payloads, TypedJob
from codemojex.engine.bus.queue import Queue
from codemojex.engine.bus.working import Works
from codemojex.engine.cache.near_cache import NearCache
from codemojex.engine.cache.options import Codec
from codemojex.engine.ids import BrandedId, Minter
from codemojex.engine.jobs import registry
from codemojex.engine.jobs.claims import MAX_LEASE_MS
from codemojex.engine.jobs.jobs import Job
from codemojex.engine.nodes.node_lease import NodeLease
from codemojex.engine.observer import Observe
from codemojex.engine.transport.connector import Connector

T = TypeVar("T")


class Bus:
    """What a program has of the engine. Made by `Bus.connect`, ended by `close`."""

    def __init__(self, connector: Connector, node: int | None, observe: Observe | None) -> None:
        self.connector = connector  # for the verbs, which take it as their first argument
        self._observe = observe
        self._lease = NodeLease(connector, observe=observe) if node is None else None
        self._minter: Minter = self._lease.minter if self._lease else Minter(node or 0)
        self._open = AsyncExitStack()
        self._working: set[Works] = set()

    @staticmethod
    def connect(
        url: str, *, node: int | None = None, timeout: Duration = 5, observe: Observe | None = None, **options: Any
    ) -> Connecting:
        """Connect: `async with Bus.connect(url) as bus:`, or `bus = await Bus.connect(url)` and later `bus.close()`.

        `valkey://host:port/db`, `cluster://host:port,…` or `sentinel://host:port,…/service`. Without a `node` a number
        is leased, renewed while the bus is open, and given back. `timeout` bounds every command; `observe` hears of
        the engine's events; other options are those of `Connector.connect`. Raises InvalidValue for a wrong URL,
        Unavailable, AccessDenied, VersionFence, or OutOfNodes.
        """
        return Connecting(url, node, timeout, observe, options)

    async def open(self) -> None:
        """Lease the node number. `connect` does it."""
        self._open.push_async_callback(self.connector.close)
        if self._lease is not None:
            await self._open.enter_async_context(self._lease)

    async def close(self) -> None:
        """Stop the work, give back the node number, close every connection. A second call does nothing."""
        self.stop()
        await self._open.aclose()

    @overload
    def queue(self, name: str) -> Queue[bytes, Job]: ...
    @overload
    def queue(self, name: str, codec: type[T] | Codec[T]) -> Queue[T, TypedJob[T]]: ...
    def queue(self, name: str, codec: Any = None) -> Queue[Any, Any]:
        """The queue of that name; nothing is sent. Its payloads are bytes, or what `codec` says.

        `codec` is a type that msgspec knows, such as a struct, or an object with `encode` and `decode`; handlers then
        get a `TypedJob`. Raises InvalidName or InvalidValue.
        """
        return Queue(self.connector, name, Payloads(name, codec), self._minter, self._observe)

    def mint(self, namespace: str = "JOB") -> BrandedId:
        """A fresh id. Raises LeaseLost while the node number is not surely ours."""
        return self._minter.mint(namespace)

    async def queues(self) -> list[str]:
        """The names of the queues that were ever admitted to, sorted."""
        return await registry.queues(self.connector)

    def near_cache(self) -> NearCache:
        """A near-cache over this bus. Enter it with `async with`, and make its tables."""
        return NearCache(self.connector, observe=self._observe)

    async def work(self, *tasks: Works | working.Task, grace: Duration | None = None, signals: bool = True) -> None:
        """Run tasks, workers and stream readers until `stop`, or until a signal.

        With `signals` (in the main thread) the first SIGINT or SIGTERM stops gracefully: nothing more is claimed and
        handlers have their grace to finish. The second ends at once; what was in flight is recovered when its lease
        lapses. `grace` replaces that of the tasks. One that fails ends the others, and is raised in an ExceptionGroup.
        """
        grace_ms = None if grace is None else to_ms("grace", grace, 0, MAX_LEASE_MS)
        works = [working.works(self.connector, task, grace_ms, self._observe) for task in tasks]
        self._working.update(works)
        try:
            await working.run(works, signals=signals)
        finally:
            self._working.difference_update(works)

    def stop(self) -> None:
        """End every `work` of this bus gracefully."""
        for one in tuple(self._working):
            one.stop()


class Connecting:
    """What `Bus.connect` answers: await it, or enter it."""

    def __init__(
        self, url: str, node: int | None, timeout: Duration, observe: Observe | None, options: dict[str, Any]
    ) -> None:
        self._url = url
        self._node = node
        self._timeout = timeout
        self._observe = observe
        self._options = options
        self._bus: Bus | None = None

    def __await__(self) -> Generator[Any, Any, Bus]:
        return self._open().__await__()

    async def __aenter__(self) -> Bus:
        self._bus = await self._open()
        return self._bus

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await cast("Bus", self._bus).close()

    async def _open(self) -> Bus:
        timeout_s = to_ms("timeout", self._timeout, 1) / 1000
        connector = await Connector.connect(self._url, timeout_s=timeout_s, observe=self._observe, **self._options)
        try:
            bus = Bus(connector, self._node, self._observe)
            await bus.open()
        except BaseException:
            await connector.close()
            raise
        return bus
