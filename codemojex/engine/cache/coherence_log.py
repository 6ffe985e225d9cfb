"""The tail of a table's coherence log: how a process hears what others changed.

Every process reads the log with a cursor of its own, on a connection of its own. The ids are dense, so a missed entry
shows as a gap. A gap, a log that is gone or began again, or another server means that anything may have changed: the
process forgets what it keeps. `current` tells whether the tail is near enough to the end for the first layer to be
served.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from typing import Protocol

from codemojex.engine.errors import EngineError
from codemojex.engine.transport.connector import Connector

_PAGE = 500
_MAX_PAUSE_S = 2.0


class Listener(Protocol):
    """Who wants to hear of changes."""

    def hear(self, entry_id: str, version: int) -> None:
        """An entry has reached `version`: anything older is void."""
        ...

    def flush(self) -> None:
        """Anything may have changed."""
        ...


class Tail:
    """Reads one log until cancelled. `grace_ms` is how stale the first layer may be while nothing is heard."""

    def __init__(
        self,
        bus: Connector,
        log: str,
        listener: Listener,
        *,
        grace_ms: int,
        block_ms: int,
        on_contact: Callable[[], Awaitable[None]],
        on_fault: Callable[[EngineError], None],
    ) -> None:
        self._bus = bus
        self._log = log
        self._listener = listener
        self._grace_s = grace_ms / 1000
        self._block_ms = block_ms
        self._on_contact = on_contact
        self._on_fault = on_fault
        self._server = b""
        self._last: tuple[int, int] = (0, 0)  # birth of the log, counter
        self._heard_at = -self._grace_s  # up to this monotonic instant everything was heard
        self.connected = asyncio.Event()

    @property
    def current(self) -> bool:
        """Whether everything up to `grace_ms` ago has been heard."""
        return self.lag_s < self._grace_s

    @property
    def lag_s(self) -> float:
        """Seconds since the instant up to which everything was surely heard."""
        return time.monotonic() - self._heard_at

    async def run(self) -> None:
        """Read on and on, through lost connections."""
        faults = 0
        while True:
            try:
                await self._connect()
                while True:
                    await self._on_contact()
                    await self._read()
                    faults = 0
            except EngineError as error:
                self.connected.clear()
                self._on_fault(error)
                faults += 1
                await asyncio.sleep(random.uniform(0.5, 1.0) * min(0.05 * 2 ** min(faults, 10), _MAX_PAUSE_S))

    async def _connect(self) -> None:
        """Find the place to read from: where it was left, or the end of another server's log."""
        sent = time.monotonic()
        server = await self._bus.identity(self._log)
        if server != self._server:
            newest = await self._bus.execute("XREVRANGE", self._log, "+", "-", "COUNT", 1)
            self._server = server
            self._last = _place(newest[0][0]) if newest else (0, 0)
            self._listener.flush()
            self._heard_at = sent
        self.connected.set()

    async def _read(self) -> None:
        sent = time.monotonic()
        cursor = f"{self._last[0]}-{self._last[1]}"
        command = ("XREAD", "COUNT", _PAGE, "BLOCK", self._block_ms, "STREAMS", self._log, cursor)
        reply: dict[bytes, list[tuple[bytes, list[bytes]]]] | None = await self._bus.blocking(
            *command, wait_s=self._block_ms / 1000
        )
        entries = reply.popitem()[1] if reply else []
        for entry_id, pairs in entries:
            place = _place(entry_id)
            if place != self._next(place):
                self._listener.flush()
            self._last = place
            fields = dict(zip(pairs[::2], pairs[1::2], strict=False))
            try:
                self._listener.hear(fields[b"id"].decode(), int(fields[b"v"]))
            except (KeyError, ValueError):  # not written by this engine: it may mean anything
                self._listener.flush()
        if not entries and self._last != (0, 0) and not await self._bus.execute("EXISTS", self._log):
            self._listener.flush()  # the server lost its data, and nobody has written since
            self._last = (0, 0)
        if len(entries) < _PAGE:
            self._heard_at = sent

    def _next(self, place: tuple[int, int]) -> tuple[int, int]:
        """The place that follows the last one: the next in the same log, or the first where none was known."""
        return (place[0], 0) if self._last == (0, 0) else (self._last[0], self._last[1] + 1)


def _place(entry_id: bytes) -> tuple[int, int]:
    birth, _, counter = entry_id.decode().partition("-")
    return int(birth), int(counter)
