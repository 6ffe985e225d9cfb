"""Keeps the program's limits on the server, whatever happens to the server's data.

The limits live in the queues' `meta` hashes, next to a mark of who set them: when that process began, by the server's
clock, and a digest of its settings. One rule holds at a start and on every beat: no mark means that the data is gone,
and the limits are set again; another digest gives way to the process that began last; the same digest means that
nothing has to be done. So a limit that an operator changed by a verb stands as long as the settings stay the same.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Awaitable, Callable, Sequence

from codemojex.engine import keyspace
from codemojex.engine.error_text import describe
from codemojex.engine.errors import ConnectionFault, ServerError
from codemojex.engine.observer import Observe, ignore
from codemojex.engine.transport.connector import Connector
from codemojex.engine.waiting import reconnect_s, wait
from codemojex.roles.internal import Setting, limits_of
from codemojex.settings import Settings

BEAT_S = 2.0
MARK = "kept"  # the field of `meta`: <ms when its writer began>:<digest of the writer's settings>
_log = logging.getLogger(__name__)


class Keeper:
    """Sets the limits of `settings` by `look`, and in `run`, until `stop`, again when they are gone.

    `again` makes it look at once. `observe` hears `settings.lost` for every queue, and `on_loss` is called behind it.
    """

    def __init__(
        self,
        bus: Connector,
        settings: Settings,
        *,
        again: asyncio.Event | None = None,
        observe: Observe = ignore,
        on_loss: Callable[[], Awaitable[None]] | None = None,
        beat_s: float = BEAT_S,
    ) -> None:
        self._bus = bus
        self._limits = limits_of(settings)
        self._digests = {queue: _digest(given) for queue, given in self._limits.items()}
        self._look_now = again or asyncio.Event()
        self._observe = observe
        self._on_loss = on_loss
        self._beat_s = beat_s
        self._stop = asyncio.Event()
        self._began_ms = 0
        self._stood: set[str] = set()  # queues whose limits this process has seen in place
        self._sure: set[str] = set()  # queues that nobody else can have set at the same moment

    def stop(self) -> None:
        """End `run`."""
        self._stop.set()
        self._look_now.set()

    async def run(self) -> None:
        """Look on every beat. Raises VersionFence when another version of the protocol has taken the server."""
        failures = 0
        while not self._stop.is_set():
            self._look_now.clear()
            try:
                await self.look()
                failures, wait_s = 0, self._beat_s
            except (ConnectionFault, ServerError) as error:
                failures += 1
                wait_s = reconnect_s(failures)
                self._observe("settings.fault", {"error": describe(error), "away": isinstance(error, ConnectionFault)})
            if not self._stop.is_set():
                await wait(self._look_now, wait_s)

    async def look(self, *, reset: bool = False) -> None:
        """Set what has to be set; `reset` sets everything. Costs one round trip when all is in place."""
        marks = await self._marks()
        absent = [queue for queue, mark in marks.items() if not mark]
        other = [queue for queue, mark in marks.items() if mark and (reset or self._gives_way(queue, mark))]
        unsure = [queue for queue in marks if marks[queue] == self._mark(queue) and queue not in self._sure]
        for queue in {*absent, *other, *unsure}:
            await self._set(queue)
        self._sure.update(unsure)
        self._sure.difference_update(absent, other)
        lost = [queue for queue in absent if queue in self._stood]
        self._stood.update(marks)
        self._tell([queue for queue in absent if queue not in lost], other, lost)
        if lost and self._on_loss is not None:
            await self._on_loss()

    async def standing(self) -> dict[str, str]:
        """What stands in every queue's settings, as a line; and whether these settings put it there."""
        metas = await self._bus.all([("HGETALL", _meta(queue)) for queue in self._limits])
        lines: dict[str, str] = {}
        for queue, meta in zip(self._limits, metas, strict=True):
            given = {name.decode(errors="replace"): value.decode(errors="replace") for name, value in meta.items()}
            _, _, digest = given.pop(MARK, "").partition(":")
            source = "no process has set it" if not digest else "of other settings"
            if digest == self._digests[queue]:
                source = "of these settings, and of verbs since"
            lines[queue] = " ".join(f"{name}={value}" for name, value in sorted(given.items())) + f"  ({source})"
        return lines

    async def _marks(self) -> dict[str, str]:
        """The marks of the queues, "" for none; the server is claimed again when it has forgotten its version."""
        if not self._began_ms:
            seconds, micros = await self._bus.at(keyspace.VERSION_KEY, "TIME")
            self._began_ms = int(seconds) * 1000 + int(micros) // 1000
        asked = [("HGET", _meta(queue), MARK) for queue in self._limits]
        version, *marks = await self._bus.all([("GET", keyspace.VERSION_KEY), *asked])
        if version is None or version.decode(errors="replace") != keyspace.WIRE_VERSION:
            await self._bus.fence()
        found = [mark.decode(errors="replace") if mark else "" for mark in marks]
        return dict(zip(self._limits, found, strict=True))

    def _gives_way(self, queue: str, mark: str) -> bool:
        """Whether the limits that stand come from other settings, of a process that began earlier."""
        began, _, digest = mark.partition(":")
        return digest != self._digests[queue] and (not began.isdecimal() or int(began) < self._began_ms)

    def _mark(self, queue: str) -> str:
        return f"{self._began_ms}:{self._digests[queue]}"

    async def _set(self, queue: str) -> None:
        """Every limit, and only then the mark: who dies in between leaves it to the next look of anybody."""
        for setting in self._limits[queue]:
            await setting(self._bus, queue)
        await self._bus.execute("HSET", _meta(queue), MARK, self._mark(queue))

    def _tell(self, new: Sequence[str], other: Sequence[str], lost: Sequence[str]) -> None:
        if new:
            _log.info("the limits of %s are set", ", ".join(new))
        if other:
            _log.info("the limits of %s are set again, as the settings of this process say", ", ".join(other))
        if lost:
            _log.error(
                "the server lost the limits of %s, and they are set again; its other data is probably lost as well "
                "(FLUSHALL, a restart without persistence, a failover to an empty replica): see that it keeps them",
                ", ".join(lost),
            )
        for queue in lost:
            self._observe("settings.lost", {"queue": queue})


def on_reconnect(event: asyncio.Event) -> Observe:
    """An observer of the connection that sets `event` when a lost server is there again."""

    def observe(name: str, data: dict[str, object]) -> None:
        if name == "connector.reconnect":
            event.set()

    return observe


def _meta(queue: str) -> str:
    return keyspace.of(queue).key("meta")


def _digest(settings: Sequence[Setting]) -> str:
    said = repr([(setting.func.__name__, sorted(setting.keywords.items())) for setting in settings])
    return hashlib.blake2s(said.encode(), digest_size=8).hexdigest()
