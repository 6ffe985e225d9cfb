"""Loads of one cache table: one runs for all who wait, one process loads while others look for its result.

Valkey is asked first; what it has not, or has nearly forgotten, comes from the source of truth and is offered to both
layers. Without Valkey the source answers alone. Every load has a deadline.
"""

from __future__ import annotations

import asyncio
import math
import random
import secrets
import time
from collections.abc import Callable, Coroutine
from typing import Any, Generic, TypeVar

from codemojex.engine.cache.frame import Frame
from codemojex.engine.cache.memory import Flight, Memory
from codemojex.engine.cache.options import CacheOptions, Codec, Loader, Read, Stats
from codemojex.engine.cache.valkey_layer import Found, LayerDown, ValkeyLayer
from codemojex.engine.errors import InvalidValue, Unavailable

T = TypeVar("T")
_FIRST_WAIT_S = 0.005
_LONGEST_WAIT_S = 0.05


class Loads(Generic[T]):
    """Fills `memory` from `l2` and from `loader`; None for a table whose truth is Valkey."""

    def __init__(
        self,
        name: str,
        *,
        memory: Memory[T],
        l2: ValkeyLayer,
        codec: Codec[T],
        loader: Loader[T] | None,
        options: CacheOptions,
        stats: Stats,
        spawn: Callable[[Coroutine[Any, Any, None]], None],
    ) -> None:
        self.name = name
        self.l2 = l2
        self._memory = memory
        self._codec = codec
        self._loader = loader
        self._options = options
        self._stats = stats
        self._spawn = spawn
        self._load_s = 0.0  # how long loads take, smoothed

    def start(self, entry_id: str) -> Flight[T]:
        """Begin a load that everybody who asks from now on may wait for."""
        flight = Flight[T](asyncio.get_running_loop().create_future())
        self._spawn(self._fly(entry_id, flight))
        self._memory.flights[entry_id] = flight
        return flight

    def early(self, remaining_s: float) -> bool:
        """Whether this reader shall load ahead of expiry: likelier the nearer that is and the longer loads take."""
        return remaining_s <= -self._load_s * math.log(1 - random.random())

    def value(self, frame: Frame) -> T | None:
        """The value in a frame; None when it holds none, or none that this process can read."""
        if frame.kind != "V":
            return None
        try:
            return self._codec.decode(frame.payload)
        except Exception:  # whatever a codec raises for bytes it cannot read
            self._stats.corrupt += 1
            return None

    async def _fly(self, entry_id: str, flight: Flight[T]) -> None:
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
            if self._memory.flights.get(entry_id) is flight:
                del self._memory.flights[entry_id]

    async def _fetch(self, entry_id: str, flight: Flight[T]) -> Read[T]:
        token = "" if self._loader is None else secrets.token_hex(8)
        wait_s = _FIRST_WAIT_S
        while True:  # bounded by the deadline of the load
            try:
                found = await self.l2.read(entry_id, token, self._options.fill_lease_ms)
            except LayerDown as down:
                self._stats.down += 1
                if self._loader is None:
                    raise down.fault_of(self.name) from down
                return await self._load(entry_id, flight, None, "")
            frame = found.frame
            if frame is not None and frame.kind != "T":
                refresh = self._loader is not None and self.early(found.remaining_s)
                value = self.value(frame)
                if (value is not None or frame.kind == "N") and not refresh:
                    self._stats.l2 += 1
                    self._memory.keep(
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

    async def _load(self, entry_id: str, flight: Flight[T], found: Found | None, token: str) -> Read[T]:
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
            written = await self.l2.write(
                entry_id, "fill", kind, version=version, ttl_s=ttl_s, payload=payload, token=token, expected=seen
            )
        except LayerDown:
            self._stats.down += 1
            return answer
        if written.version is not None:
            self._memory.keep(entry_id, flight, value, written.version, life_s=ttl_s, size=len(payload))
            return Read(value, "fill", written.version)
        self._stats.superseded += 1
        newer = None if written.frame is None else self.value(written.frame)
        return answer if written.frame is None or newer is None else Read(newer, "l2", written.frame.version)

    async def _release(self, entry_id: str, token: str) -> None:
        try:
            await self.l2.release(entry_id, token)
        except LayerDown:
            self._stats.down += 1

    async def _drop(self, entry_id: str, frame: Frame) -> None:
        try:
            await self.l2.drop(entry_id, frame)
        except LayerDown:
            self._stats.down += 1
