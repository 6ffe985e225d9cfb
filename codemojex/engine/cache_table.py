"""One table of a near-cache: the rules by which a value is served, loaded, replaced and forgotten.

Reads go to the first layer while it is known to be coherent, then to Valkey, then to the loader; one load runs for
all who wait, and one process loads while others look for its result. What was changed while it was being loaded is
served to those who had asked, and kept nowhere.
"""

from __future__ import annotations

import asyncio
import math
import random
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

from .cache_types import Applied, CacheOptions, Codec, Loader, Read, Stats, Superseded
from .circuit import Circuit
from .coherence import Tail
from .connector import Connector
from .errors import Contended, EngineError, InvalidValue, Unavailable
from .frames import Frame
from .lru import Entry, SegmentedLru
from .second_layer import Found, LayerDown, SecondLayer

T = TypeVar("T")
_CAS_TRIES = 32
_MAX_OWED = 1_024
_TOMBSTONE_S = 60.0
_FIRST_WAIT_S = 0.005
_LONGEST_WAIT_S = 0.05


@dataclass(slots=True)
class _Flight(Generic[T]):
    """A load under way, and how new a change was heard of meanwhile."""

    result: asyncio.Future[Read[T]]
    heard: float = -1


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
        self._spawn = spawn
        self._l1: SegmentedLru[T] = SegmentedLru(options.max_entries, options.max_bytes)
        self._l2 = SecondLayer(bus, name, circuit, options.l2_timeout_ms / 1000)
        self._stats = Stats()
        self._load_s = 0.0  # how long loads take, smoothed
        self._flights: dict[str, _Flight[T]] = {}
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
            evicted=self._l1.evicted,
            entries=len(self._l1),
            bytes=self._l1.bytes,
            lag_ms=self.tail.lag_s * 1000,
        )

    async def get(self, entry_id: str) -> Read[T]:
        """The value of `entry_id`. Raises what the loader raises, and Unavailable when loading takes too long.

        A table without a loader has its truth in Valkey: it raises a connection fault when that is away.
        """
        self._check(entry_id)
        now = time.monotonic()
        entry = self._l1.get(entry_id, now) if self.tail.current else None
        if entry is not None:
            self._stats.hits += 1
            if self._loader is not None and entry_id not in self._flights and self._early(entry.expires_at - now):
                self._stats.refreshes += 1
                self._start(entry_id)
            return Read(entry.value, "hit", entry.version)
        flight = self._flights.get(entry_id)
        if flight is None:
            flight = self._start(entry_id)
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
                old = None if found is None else self._value(found)
                new = change(old)
                if new is None and old is None:
                    return Read(None, "l2", found.version if found else 0)
                payload = b"" if new is None else self._encode(entry_id, new)
                kind, ttl_s = ("T", _TOMBSTONE_S) if new is None else ("V", self._options.ttl_s)
                expected = found.version if found else 0
                written = await self._l2.write(entry_id, "cas", kind, ttl_s=ttl_s, payload=payload, expected=expected)
                if written.version is not None:
                    self._mark(entry_id, written.version)
                    if new is not None:
                        self._keep(entry_id, None, new, written.version, life_s=ttl_s, size=len(payload))
                    return Read(new, "l2", written.version)
                await asyncio.sleep(random.uniform(0, 0.001 * min(attempt + 1, 20)))
        except LayerDown as down:
            raise self._away(down) from down
        raise Contended(f"{self.name} {entry_id}: lost {_CAS_TRIES} tries to other writers, try again later")

    def hear(self, entry_id: str, version: int) -> None:
        """Take in a line of the coherence log (called by the tail)."""
        self._mark(entry_id, version)

    def flush(self) -> None:
        """Forget the first layer, and keep nothing of what is being loaded (called by the tail)."""
        self._stats.flushes += 1
        self._l1.clear()
        for flight in self._flights.values():
            flight.heard = math.inf
        self._flights.clear()

    def _mark(self, entry_id: str, version: int) -> None:
        """Drop what is older than `version`; a load under way answers those who wait, later readers start anew."""
        entry = self._l1.peek(entry_id)
        if entry is not None and entry.version < version:
            self._l1.drop(entry_id)
            self._stats.dropped += 1
        flight = self._flights.pop(entry_id, None)
        if flight is not None:
            flight.heard = max(flight.heard, version)

    def _keep(
        self, entry_id: str, flight: _Flight[T] | None, value: T | None, version: int, *, life_s: float, size: int
    ) -> None:
        """Store in the first layer unless something newer is known."""
        now = time.monotonic()
        there = self._l1.peek(entry_id)
        newer_there = there is not None and there.expires_at > now and there.version > version
        if newer_there or (flight is not None and flight.heard > version):
            self._stats.superseded += 1
            return
        longest = self._options.l1_ttl_s or self._options.ttl_s
        if value is None:
            longest = min(longest, self._options.negative_ttl_s)
        self._l1.put(entry_id, Entry(value, version, now + min(longest * random.uniform(0.9, 1.0), life_s), size))

    def _start(self, entry_id: str) -> _Flight[T]:
        flight = _Flight[T](asyncio.get_running_loop().create_future())
        self._spawn(self._fly(entry_id, flight))
        self._flights[entry_id] = flight
        return flight

    async def _fly(self, entry_id: str, flight: _Flight[T]) -> None:
        """Run one load; its result or failure goes to all who wait, and to nobody else."""
        limit_s = self._options.load_timeout_ms / 1000
        deadline = asyncio.timeout(limit_s)
        try:
            async with deadline:
                read = await self._fetch(entry_id, flight)
            flight.result.set_result(read)
        except asyncio.CancelledError:
            flight.result.set_exception(Unavailable(f"the cache was closed while {self.name} {entry_id} was loaded"))
            raise
        except Exception as error:
            late = Unavailable(f"loading {self.name} {entry_id} took longer than {limit_s:g} s")
            flight.result.set_exception(late if deadline.expired() else error)
        finally:
            if flight.result.done():
                flight.result.exception()  # seen, also when nobody waits any more
            if self._flights.get(entry_id) is flight:
                del self._flights[entry_id]

    async def _fetch(self, entry_id: str, flight: _Flight[T]) -> Read[T]:
        token = "" if self._loader is None else secrets.token_hex(8)
        wait_s = _FIRST_WAIT_S
        while True:  # bounded by the deadline of the load
            try:
                found = await self._l2.read(entry_id, token, self._options.fill_lease_ms)
            except LayerDown as down:
                self._stats.down += 1
                if self._loader is None:
                    raise self._away(down) from down
                return await self._load(entry_id, flight, None, "")
            frame = found.frame
            if frame is not None and frame.kind != "T":
                refresh = self._loader is not None and self._early(found.remaining_s)
                value = self._value(frame)
                if (value is not None or frame.kind == "N") and not refresh:
                    self._stats.l2 += 1
                    self._keep(
                        entry_id, flight, value, frame.version, life_s=found.remaining_s, size=len(frame.payload)
                    )
                    return Read(value, "l2", frame.version)
                if value is None and frame.kind == "V" and self._loader is not None:
                    await self._drop(entry_id, frame)
                    continue
            if self._loader is None:
                return Read(None, "l2", frame.version if frame else 0)
            if found.turn != "wait":
                return await self._load(entry_id, flight, found, token)
            await asyncio.sleep(random.uniform(0.5, 1.0) * wait_s)
            wait_s = min(wait_s * 2, _LONGEST_WAIT_S)

    async def _load(self, entry_id: str, flight: _Flight[T], found: Found | None, token: str) -> Read[T]:
        """Ask the source of truth and offer its answer to both layers; `found` is None when Valkey is away."""
        assert self._loader is not None
        started = time.monotonic()
        try:
            loaded = await self._loader(entry_id)
            if loaded is not None and loaded.version < 1:
                raise InvalidValue(
                    f"{self.name} {entry_id}: the loader gave version {loaded.version}, at least 1 is due"
                )
            payload = b"" if loaded is None else self._codec.encode(loaded.value)
        except Exception:
            await self._release(entry_id, token)
            raise
        took_s = time.monotonic() - started
        self._load_s = took_s if not self._load_s else 0.8 * self._load_s + 0.2 * took_s
        self._stats.fills += 1
        value, version = (None, 0) if loaded is None else (loaded.value, loaded.version)
        answer = Read(value, "fill", version)
        if found is None:
            return answer
        if len(payload) > self._options.max_value_bytes:
            await self._release(entry_id, token)
            return answer
        kind, ttl_s = ("N", self._options.negative_ttl_s) if loaded is None else ("V", self._options.ttl_s)
        seen = found.frame.version if found.frame is not None and found.frame.kind == "T" else 0
        try:
            written = await self._l2.write(
                entry_id, "fill", kind, version=version, ttl_s=ttl_s, payload=payload, token=token, expected=seen
            )
        except LayerDown:
            self._stats.down += 1
            return answer
        if written.version is not None:
            self._keep(entry_id, flight, value, written.version, life_s=ttl_s, size=len(payload))
            return Read(value, "fill", written.version)
        self._stats.superseded += 1
        newer = None if written.frame is None else self._value(written.frame)
        return answer if written.frame is None or newer is None else Read(newer, "l2", written.frame.version)

    async def _write(
        self, entry_id: str, kind: str, value: T | None, version: int, payload: bytes
    ) -> Applied | Superseded:
        if version < 1:
            raise InvalidValue(f"{self.name} {entry_id}: version {version} is out of range, it starts at 1")
        ttl_s = self._options.ttl_s if kind == "V" else max(_TOMBSTONE_S, self._options.negative_ttl_s)
        self._mark(entry_id, version)
        try:
            written = await self._l2.write(entry_id, "put", kind, version=version, ttl_s=ttl_s, payload=payload)
        except LayerDown as down:
            self._stats.down += 1
            if self._loader is None:
                raise self._away(down) from down
            self._owe(entry_id, version)
            return Applied(shared=False)
        self._mark(entry_id, version)
        if written.version is None:
            self._stats.superseded += 1
            return Superseded()
        if kind == "V":
            self._keep(entry_id, None, value, version, life_s=ttl_s, size=len(payload))
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

    async def _release(self, entry_id: str, token: str) -> None:
        try:
            await self._l2.release(entry_id, token)
        except LayerDown:
            self._stats.down += 1

    async def _drop(self, entry_id: str, frame: Frame) -> None:
        try:
            await self._l2.drop(entry_id, frame)
        except LayerDown:
            self._stats.down += 1

    def _value(self, frame: Frame) -> T | None:
        """The value in a frame; None when it holds none, or none that this process can read."""
        if frame.kind != "V":
            return None
        try:
            return self._codec.decode(frame.payload)
        except Exception:  # whatever a codec raises for bytes it cannot read
            self._stats.corrupt += 1
            return None

    def _encode(self, entry_id: str, value: T) -> bytes:
        payload = self._codec.encode(value)
        if len(payload) > self._options.max_value_bytes:
            raise InvalidValue(
                f"{self.name} {entry_id}: a value of {len(payload)} bytes is too large, "
                f"the limit is {self._options.max_value_bytes}"
            )
        return payload

    def _early(self, remaining_s: float) -> bool:
        """Whether this reader shall load ahead of expiry: likelier the nearer that is and the longer loads take."""
        return remaining_s <= -self._load_s * math.log(1 - random.random())

    def _away(self, down: LayerDown) -> EngineError:
        return down.fault or Unavailable(f"{self.name}: Valkey did not answer lately; trying again shortly")
