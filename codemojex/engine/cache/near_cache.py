"""A near-cache: a bounded first layer in the process over a second one in Valkey, kept coherent by versions.

Every value carries a version from the source of truth, so an older one never replaces a newer one in either layer,
however late it arrives. A herd loads once, a change reaches every process, and a cache that is down or full costs
time but never an answer, except for tables whose truth is the cache itself. Values are shared: treat them as frozen.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Collection, Coroutine
from types import TracebackType
from typing import Any, Generic, TypeVar, cast

import msgspec

from codemojex.engine import ids, keyspace, validation
from codemojex.engine.cache.circuit_breaker import Circuit
from codemojex.engine.cache.options import Applied, CacheOptions, Codec, Loaded, Loader, Read, Stats, Superseded
from codemojex.engine.cache.table import Table
from codemojex.engine.errors import ConnectionFault, EngineError, InvalidName, InvalidValue, Unavailable
from codemojex.engine.observer import Observe, observer
from codemojex.engine.transport.connector import Connector, connector

__all__ = [
    "BYTES", "Applied", "CacheOptions", "Codec", "Loaded", "NearCache", "Read", "Stats", "Superseded", "Table",
    "struct_codec",
]  # fmt: skip

T = TypeVar("T")
_ENTRY_ID = re.compile(r"[A-Za-z0-9:._-]{1,64}")
_ENTRY_RULE = "use 1 to 64 of A-Z a-z 0-9 : . _ -, and not the word log"
_RESERVED = "log"


class StructCodec(Generic[T]):
    """Values of one type as MessagePack."""

    def __init__(self, kind: type[T]) -> None:
        self._encoder = msgspec.msgpack.Encoder()
        self._decoder = msgspec.msgpack.Decoder(kind)

    def encode(self, value: T) -> bytes:
        return self._encoder.encode(value)

    def decode(self, payload: bytes) -> T:
        return self._decoder.decode(payload)


class _Bytes:
    """Values that are bytes already."""

    def encode(self, value: bytes) -> bytes:
        return value

    def decode(self, payload: bytes) -> bytes:
        return payload


BYTES: Codec[bytes] = _Bytes()


def struct_codec(kind: type[T]) -> Codec[T]:
    """The codec of a msgspec struct, or of anything else that msgspec knows. Prefer frozen structs."""
    return StructCodec(kind)


class NearCache:
    """The tables of one process. Enter it with `async with`: its tails and loads run until it is left.

    `observe("cache.fault", …)` hears of a second layer that does not answer.
    """

    def __init__(self, bus: Connector, *, observe: Observe | None = None) -> None:
        self._bus = connector("bus", bus)
        self._observe = observer(observe)
        self._circuit = Circuit()
        self._tables: dict[str, Table[Any]] = {}
        self._tasks: asyncio.TaskGroup | None = None
        self._running: set[asyncio.Task[None]] = set()

    def table(
        self,
        name: str,
        *,
        codec: Codec[T],
        loader: Loader[T] | None = None,
        kinds: Collection[str] = (),
        options: CacheOptions | None = None,
    ) -> Table[T]:
        """Make the table `name` (a-z and _, after a namespace and a dot if there is one), once.

        Entry ids are 1 to 64 of `A-Za-z0-9:._-`; with `kinds` they are branded ids of these namespaces, or several
        of them joined by colons. Without a loader Valkey is the source of truth: see `Table.update`.
        """
        keyspace.cache_prefix(name)
        if loader is not None:
            validation.awaited("loader", loader)
        options = CacheOptions() if options is None else options
        validation.one_of("options", options, CacheOptions)
        if name in self._tables:
            raise InvalidName("cache table", name, "it exists already, every table is made once")

        def fault(error: EngineError) -> None:
            self._observe(
                "cache.fault", {"table": name, "error": str(error), "away": isinstance(error, ConnectionFault)}
            )

        made = Table(
            self._bus,
            name,
            check=_rule(name, frozenset(kinds)),
            codec=codec,
            loader=loader,
            options=options,
            circuit=self._circuit,
            spawn=self._spawn,
            on_fault=fault,
        )
        self._tables[name] = cast("Table[Any]", made)
        if self._tasks is not None:
            self._spawn(made.tail.run())
        return made

    def stats(self) -> dict[str, Stats]:
        """The counters of every table."""
        return {name: table.stats() for name, table in self._tables.items()}

    async def connected(self, deadline_s: float = 5.0) -> None:
        """Wait until every tail hears. Raises Unavailable at the deadline; reads work before, only slower."""
        try:
            async with asyncio.timeout(deadline_s):
                for table in list(self._tables.values()):
                    await table.tail.connected.wait()
        except TimeoutError:
            raise Unavailable(f"the cache did not connect to its server in {deadline_s:g} s") from None

    async def __aenter__(self) -> NearCache:
        self._tasks = asyncio.TaskGroup()
        await self._tasks.__aenter__()
        for table in self._tables.values():
            self._spawn(table.tail.run())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        tasks, self._tasks = self._tasks, None
        for task in list(self._running):
            task.cancel()
        if tasks is not None:
            await tasks.__aexit__(None, None, None)  # the body's own error passes as it is

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        if self._tasks is None:
            work.close()
            raise InvalidValue("the cache is not running: use it inside `async with cache:`")
        task = self._tasks.create_task(work)
        self._running.add(task)
        task.add_done_callback(self._running.discard)


def _rule(table: str, kinds: frozenset[str]) -> Callable[[str], None]:
    def check(entry_id: str) -> None:
        if not _ENTRY_ID.fullmatch(validation.name(f"{table} entry", entry_id, _ENTRY_RULE)) or entry_id == _RESERVED:
            raise InvalidName(f"{table} entry", entry_id, _ENTRY_RULE)
        if kinds:
            for part in entry_id.split(":"):
                ids.require(part, *sorted(kinds))

    return check
