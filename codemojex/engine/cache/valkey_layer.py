"""The second layer of one near-cache table: its entries in Valkey, behind a time limit and a circuit breaker.

Every call either answers or raises `LayerDown` soon; the caller then goes to the source of truth. No policy here:
what is kept for how long, and what a miss means, is the table's business.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from codemojex.engine import keyspace
from codemojex.engine.cache import frame as frames
from codemojex.engine.cache.circuit_breaker import Circuit
from codemojex.engine.cache.frame import Frame
from codemojex.engine.errors import EngineError, ServerError, Unavailable, UnknownOutcome
from codemojex.engine.scripts import ENGINE, Script
from codemojex.engine.transport.connector import Arg, Connector

_LOG_LENGTH = 10_000
_LOG_TTL_MS = 7 * 86_400_000
_JITTER = 0.1


class LayerDown(Exception):
    """The second layer cannot answer; `fault` is why, None when the circuit is open."""

    def __init__(self, fault: EngineError | None) -> None:
        super().__init__(str(fault) if fault else "the circuit is open")
        self.fault = fault

    def fault_of(self, table: str) -> EngineError:
        """What those are told who cannot do without it."""
        return self.fault or Unavailable(f"{table}: Valkey did not answer lately; trying again shortly")


@dataclass(frozen=True, slots=True)
class Found:
    """What is there. `turn`: `lease` the caller shall fill, `wait` another process does, empty otherwise."""

    frame: Frame | None
    remaining_s: float
    turn: str


@dataclass(frozen=True, slots=True)
class Written:
    """`version` when the write was applied; else None and the frame that stood in its way, if there is one."""

    version: int | None
    frame: Frame | None


class ValkeyLayer:
    """Reads and writes entries of `table`."""

    def __init__(self, bus: Connector, table: str, circuit: Circuit, timeout_s: float) -> None:
        self._bus = bus
        self._table = table
        self._circuit = circuit
        self._timeout_s = timeout_s
        self.log = keyspace.cache_log(table)

    async def read(self, entry_id: str, token: str = "", lease_ms: int = 0) -> Found:
        """The entry; with a token the right to fill it is leased when there is no value."""
        raw, pttl, turn = await self._run(ENGINE.script("cache_read"), self._keys(entry_id)[:2], [token, lease_ms])
        return Found(frames.decode(raw) if raw else None, max(0, pttl) / 1000, turn.decode())

    async def write(
        self,
        entry_id: str,
        mode: str,
        kind: str,
        *,
        version: int = 0,
        ttl_s: float = 1.0,
        payload: bytes = b"",
        token: str = "",
        expected: int = 0,
    ) -> Written:
        """Write by the rules of `lua/cache/cache_write.lua`; the life time is jittered by up to a tenth."""
        ttl_ms = max(1, int(ttl_s * random.uniform(1 - _JITTER, 1) * 1000))
        args: list[Arg] = [mode, kind, frames.digits(version), ttl_ms, payload, entry_id]
        args += [_LOG_LENGTH, _LOG_TTL_MS, token, frames.digits(expected)]
        verdict, value = await self._run(ENGINE.script("cache_write"), self._keys(entry_id), args)
        if verdict == b"applied":
            return Written(int(value), None)
        return Written(None, frames.decode(value) if value else None)

    async def release(self, entry_id: str, token: str) -> None:
        """Give the right to fill back, so that the next reader need not wait for it to lapse."""
        if token:
            await self.write(entry_id, "release", "N", token=token)

    async def drop(self, entry_id: str, frame: Frame) -> None:
        """Remove a frame whose payload does not decode."""
        await self._run(ENGINE.script("cache_drop"), self._keys(entry_id)[:1], [frame.raw])

    def _keys(self, entry_id: str) -> list[str]:
        return [keyspace.cache(self._table, entry_id), keyspace.cache_lease(self._table, entry_id), self.log]

    async def _run(self, script: Script, keys: Sequence[str], args: Sequence[Arg]) -> Any:  # a reply is open
        if not self._circuit.allows():
            raise LayerDown(None)
        try:
            async with asyncio.timeout(self._timeout_s):
                reply = await self._bus.run(script, keys, args)
        except TimeoutError:
            self._circuit.failed()
            raise LayerDown(UnknownOutcome(f"no answer from the cache in {self._timeout_s:g} s")) from None
        except ServerError as error:  # it answers: full, or an entry that is none of ours
            self._circuit.succeeded()
            raise LayerDown(error) from error
        except EngineError as error:
            self._circuit.failed()
            raise LayerDown(error) from error
        self._circuit.succeeded()
        return reply
