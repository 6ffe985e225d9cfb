"""One table of a near-cache: the rules by which a value is served, replaced and forgotten.

Reads go to the first layer while it is known to be coherent, then to Valkey, then to the loader. Changes are numbered:
an older one never replaces a newer one, in no layer. What Valkey could not be told is owed, and told when it is back.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import OrderedDict
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any, Generic, TypeVar

from codemojex.engine import validation
from codemojex.engine.cache.circuit_breaker import Circuit
from codemojex.engine.cache.coherence_log import Tail
from codemojex.engine.cache.frame import MAX_VERSION
from codemojex.engine.cache.loads import Loads
from codemojex.engine.cache.memory import Memory
from codemojex.engine.cache.options import Applied, CacheOptions, Codec, Loader, Read, Stats, Superseded
from codemojex.engine.cache.valkey_layer import LayerDown, ValkeyLayer
from codemojex.engine.errors import Contended, EngineError, InvalidValue
from codemojex.engine.transport.connector import Connector

T = TypeVar("T")
_CAS_TRIES = 32
_MAX_OWED = 1_024
_TOMBSTONE_S = 60.0


class Table(Generic[T]):
    """Made by `NearCache.table`; works while the cache is entered."""

    def __init__(
        self,
        bus: Connector,
        name: str,
        *,
        check: Callable[[str], None],
        codec: Codec[T],
        loader: Loader[T] | None,
        options: CacheOptions,
        circuit: Circuit,
        spawn: Callable[[Coroutine[Any, Any, None]], None],
        on_fault: Callable[[EngineError], None],
    ) -> None:
        self.name = name
        self._check = check
        self._codec = codec
        self._loader = loader
        self._options = options
        self._circuit = circuit
        self._l2 = ValkeyLayer(bus, name, circuit, options.l2_timeout_ms / 1000)
        self._stats = Stats()
        self._memory: Memory[T] = Memory(options, self._stats)
        self._loads = Loads(
            name,
            memory=self._memory,
            l2=self._l2,
            codec=codec,
            loader=loader,
            options=options,
            stats=self._stats,
            spawn=spawn,
        )
        self._owed: OrderedDict[str, int] = OrderedDict()  # changes that other processes have not heard of
        self.tail = Tail(
            bus,
            self._l2.log,
            self,
            grace_ms=options.grace_ms,
            block_ms=options.block_ms,
            on_contact=self._contact,
            on_fault=on_fault,
        )

    def stats(self) -> Stats:
        """A copy of the counters, with the present sizes and lag."""
        return replace(
            self._stats,
            evicted=self._memory.entries.evicted,
            entries=len(self._memory.entries),
            bytes=self._memory.entries.bytes,
            lag_ms=self.tail.lag_s * 1000,
        )

    async def get(self, entry_id: str) -> Read[T]:
        """The value of `entry_id`. Raises what the loader raises, and Unavailable when loading takes too long.

        A table without a loader has its truth in Valkey: it raises a connection fault when that is away.
        """
        self._check(entry_id)
        now = time.monotonic()
        entry = self._memory.entries.get(entry_id, now) if self.tail.current else None
        if entry is not None:
            self._stats.hits += 1
            if (
                self._loader is not None
                and entry_id not in self._memory.flights
                and self._loads.early(entry.expires_at - now)
            ):
                self._stats.refreshes += 1
                self._loads.start(entry_id)
            return Read(entry.value, "hit", entry.version)
        flight = self._memory.flights.get(entry_id)
        if flight is None:
            flight = self._loads.start(entry_id)
        else:
            self._stats.coalesced += 1
        return await asyncio.shield(flight.result)

    async def put(self, entry_id: str, value: T, version: int) -> Applied | Superseded:
        """Store a value of the source of truth, unless one of this version or a newer one is there; all hear of it.

        Raises InvalidValue for a value above `max_value_bytes`.
        """
        self._check(entry_id)
        payload = self._encode(entry_id, value)
        return await self._write(entry_id, "V", value, version, payload)

    async def invalidate(self, entry_id: str, version: int) -> Applied | Superseded:
        """Make everything below `version` void, everywhere. After a deletion pass a version above the last one."""
        self._check(entry_id)
        return await self._write(entry_id, "T", None, version, b"")

    async def update(self, entry_id: str, change: Callable[[T | None], T | None]) -> Read[T]:
        """Replace the value by `change(value)` atomically; None stands for absence on both sides.

        For tables whose truth is Valkey. `change` runs again when another process was faster, so it must be pure.
        Raises Contended after a bounded number of tries and connection faults, UnknownOutcome among them.
        """
        self._check(entry_id)
        try:
            for attempt in range(_CAS_TRIES):
                found = (await self._l2.read(entry_id)).frame
                old = None if found is None else self._loads.value(found)
                new = change(old)
                if new is None and old is None:
                    return Read(None, "l2", found.version if found else 0)
                payload = b"" if new is None else self._encode(entry_id, new)
                kind, ttl_s = ("T", _TOMBSTONE_S) if new is None else ("V", self._options.ttl_s)
                expected = found.version if found else 0
                written = await self._l2.write(entry_id, "cas", kind, ttl_s=ttl_s, payload=payload, expected=expected)
                if written.version is not None:
                    self._memory.mark(entry_id, written.version)
                    if new is not None:
                        self._memory.keep(entry_id, None, new, written.version, life_s=ttl_s, size=len(payload))
                    return Read(new, "l2", written.version)
                await asyncio.sleep(random.uniform(0, 0.001 * min(attempt + 1, 20)))
        except LayerDown as down:
            raise down.fault_of(self.name) from down
        raise Contended(f"{self.name} {entry_id}: lost {_CAS_TRIES} tries to other writers, try again later")

    def hear(self, entry_id: str, version: int) -> None:
        """Take in a line of the coherence log (called by the tail)."""
        self._memory.mark(entry_id, version)

    def flush(self) -> None:
        """Forget the first layer, and keep nothing of what is being loaded (called by the tail)."""
        self._memory.flush()

    async def _write(
        self, entry_id: str, kind: str, value: T | None, version: int, payload: bytes
    ) -> Applied | Superseded:
        validation.integer(f"the version of {self.name} {entry_id}", version, 1, MAX_VERSION)
        ttl_s = self._options.ttl_s if kind == "V" else max(_TOMBSTONE_S, self._options.negative_ttl_s)
        self._memory.mark(entry_id, version)
        try:
            written = await self._l2.write(entry_id, "put", kind, version=version, ttl_s=ttl_s, payload=payload)
        except LayerDown as down:
            self._stats.down += 1
            if self._loader is None:
                raise down.fault_of(self.name) from down
            self._owe(entry_id, version)
            return Applied(shared=False)
        self._memory.mark(entry_id, version)
        if written.version is None:
            self._stats.superseded += 1
            return Superseded()
        if kind == "V":
            self._memory.keep(entry_id, None, value, version, life_s=ttl_s, size=len(payload))
        return Applied()

    def _owe(self, entry_id: str, version: int) -> None:
        """Remember a change to be told when Valkey is back; beyond the limit the oldest is left to expiry."""
        self._owed[entry_id] = max(version, self._owed.pop(entry_id, 0))
        if len(self._owed) > _MAX_OWED:
            self._owed.popitem(last=False)

    async def _contact(self) -> None:
        """Valkey answers (called by the tail): trust it again, and tell the changes that are owed."""
        self._circuit.hint()
        for entry_id, version in list(self._owed.items()):
            try:
                await self._l2.write(entry_id, "put", "T", version=version, ttl_s=_TOMBSTONE_S)
            except LayerDown:
                return
            if self._owed.get(entry_id) == version:
                del self._owed[entry_id]

    def _encode(self, entry_id: str, value: T) -> bytes:
        payload = self._codec.encode(value)
        if len(payload) > self._options.max_value_bytes:
            raise InvalidValue(
                f"{self.name} {entry_id}: a value of {len(payload)} bytes is too large, "
                f"the limit is {self._options.max_value_bytes}"
            )
        return payload
