"""Finished games that the durable store does not hold yet: how many, since when, and somebody who says so.

They have no life time and live in the server's memory until they are archived. `Options.max_unarchived` bounds them:
beyond it no new game begins, so nothing is lost, however long the archive is away.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from codemojex.engine.errors import ConnectionFault, ServerError
from codemojex.engine.transport.connector import Connector
from codemojex.engine.waiting import wait
from codemojex.play import keys
from codemojex.play.commands import LUA
from codemojex.play.context import Options, Play

LATE_MS = 60_000  # from this age of the oldest on the backlog is told
_LOOK_S = 5.0
_AGAIN_S = 60.0
_PAGE = 500
_PAGES = 4_000  # 2,000,000 games, twice what a bound may be
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Backlog:
    """The backlog of one queue, or of all: `aside` of the `games` were refused by the store; `limit` bounds them."""

    games: int
    aside: int
    oldest_ms: int
    limit: int
    full: bool


async def read(bus: Connector, options: Options) -> dict[str, Backlog]:
    """The backlog of every queue, from counters: their sizes do not matter."""
    limit, found = options.share(options.max_unarchived), dict[str, Backlog]()
    for queue in keys.queues(options):
        games = keys.unarchived(queue)
        count, aside, first = await bus.all(
            [("ZCARD", games), ("ZCARD", keys.refused(queue)), ("ZRANGE", games, 0, 0, "WITHSCORES")]
        )
        seconds, micros = await bus.execute("TIME")
        now_ms = int(seconds) * 1000 + int(micros) // 1000
        oldest_ms = max(0, now_ms - int(first[0][1])) if first else 0
        found[queue] = Backlog(count, aside, oldest_ms, limit, count >= limit)
    return found


def total(backlogs: Sequence[Backlog]) -> Backlog:
    """All queues as one; it is full as soon as one of them is."""
    return Backlog(
        sum(one.games for one in backlogs),
        sum(one.aside for one in backlogs),
        max((one.oldest_ms for one in backlogs), default=0),
        sum(one.limit for one in backlogs),
        any(one.full for one in backlogs),
    )


def sentence(seen: Backlog) -> str:
    """The backlog in one line."""
    if not seen.games:
        return "every finished game is archived"
    aside = f", {seen.aside:,} of them set aside by the archiver" if seen.aside else ""
    full = "; no new game begins" if seen.full else ""
    count = "1 finished game waits" if seen.games == 1 else f"{seen.games:,} finished games wait"
    return f"{count} for the archive, the oldest for {seen.oldest_ms // 1000:,} s{aside}; {seen.limit:,} may{full}"


async def keep(play: Play) -> int:
    """Take the life time from finished games that an older release gave one, and count them; how many.

    A game that is counted and gone is not counted any more.
    """
    kept = 0
    for queue in keys.queues(play.options):
        for page in range(_PAGES):
            seen, fresh, gone = await play.bus.run(
                LUA.script("keep_unarchived"), keys.of_archive(queue), [page * _PAGE, _PAGE]
            )
            kept += fresh
            if gone:
                _log.error("%d finished games of %s are gone from the server and were never archived", gone, queue)
            if seen < _PAGE:
                break
    return kept


class BacklogWatch:
    """Tells the log of a backlog older than a minute: once, then once a minute at most, and once when it ends."""

    def __init__(
        self, play: Play, *, look_s: float = _LOOK_S, again_s: float = _AGAIN_S, late_ms: int = LATE_MS,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:  # fmt: skip
        self._play = play
        self._look_s = look_s
        self._again_s = again_s
        self._late_ms = late_ms
        self._monotonic = monotonic
        self._told: float | None = None
        self._most = 0
        self._kept: float | None = None
        self._stop = asyncio.Event()

    def stop(self) -> None:
        """End `run`."""
        self._stop.set()

    async def run(self) -> None:
        """Look until `stop`; a server that is away is somebody else's news."""
        while not self._stop.is_set():
            try:
                await self.look()
            except (ConnectionFault, ServerError) as error:
                _log.debug("the backlog of the archive is not known: %s", error)
            await wait(self._stop, self._look_s)

    async def look(self) -> None:
        """Keep what would expire, once a minute, and tell what there is to tell."""
        now = self._monotonic()
        if self._kept is None or now - self._kept >= _AGAIN_S:
            await keep(self._play)
            self._kept = now
        seen = total(list((await read(self._play.bus, self._play.options)).values()))
        late = seen.full or (seen.games > 0 and seen.oldest_ms > self._late_ms)
        if late:
            self._most = max(self._most, seen.games)
            if self._told is None or now - self._told >= self._again_s:
                self._told = now
                _log.warning("%s: run the role `archive` and see what it logs of its database", sentence(seen))
        elif self._told is not None:
            _log.info("the archive has caught up: %d finished games waited at most", self._most)
            self._told, self._most = None, 0
