"""Hands finished games to the durable store, and only then lets go of their live copy.

Per game: read the whole stream in bounded pages, fold it into rows, commit rows, segments and watermark, then trim the
stream by id up to the watermark and shorten the life of the game's keys. Every step may be repeated or raced by
another archiver. The index of settled games is the list of work: nothing is lost while the store is down, for a
finished game has no life time until the watermark holds it. Its secret goes at once then: the stream has told it.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Literal

from codemojex.engine import ids
from codemojex.engine.errors import ConnectionFault, ServerError, ServerFull
from codemojex.engine.streams import streams
from codemojex.engine.streams.record import following
from codemojex.engine.waiting import wait
from codemojex.game.fold import FoldError, GameState
from codemojex.play import games, keys, rooms
from codemojex.play.archive import rows
from codemojex.play.context import Play
from codemojex.play.outcomes import away
from codemojex.play.people import players
from codemojex.play.views import views
from codemojex.store.archive import AlreadyFolded, ArchiveConflict, Archived, fold_game, read_watermark
from codemojex.store.errors import StoreUnavailable
from codemojex.store.history import read_game, read_records
from codemojex.store.records import ArchivedGame, StreamRecord, Watermark

SWEEP_S = 60.0
QUARANTINE_KEEP = 10_000
_SEGMENT = 10_000  # records of one segment
_BATCH = 100  # games of one look at the index
_ROUNDS = 5  # how often a lost swap is tried again at once
_FIRST_PAUSE_S = 0.5
_LONGEST_PAUSE_S = 60.0
_log = logging.getLogger(__name__)

Outcome = Literal["archived", "already", "refused", "gone"]


class Archiver:
    """Archives settled games until `stop`; `wake` it when there may be one."""

    def __init__(self, play: Play, *, sweep_s: float = SWEEP_S) -> None:
        self._play = play
        self._sweep_s = sweep_s
        self._wake = asyncio.Event()
        self._stop = asyncio.Event()

    def wake(self) -> None:
        """Look at the index now."""
        self._wake.set()

    def stop(self) -> None:
        """Let `run` return after the game at hand."""
        self._stop.set()
        self._wake.set()

    async def run(self) -> None:
        """Sweep at the start, at every `wake` and every minute; pause and try again while a server is away."""
        pause_s, begun = _FIRST_PAUSE_S, False
        while not self._stop.is_set():
            self._wake.clear()
            try:
                if not begun:
                    await take_up_again(self._play)
                    begun = True
                await sweep(self._play)
            except (StoreUnavailable, ConnectionFault, ServerError) as error:
                passes = {"outage": away(error), "again_s": pause_s}
                _log.warning("archiving pauses for %.1f s: %s", pause_s, error, extra=passes)
                await wait(self._stop, pause_s)
                pause_s = min(_LONGEST_PAUSE_S, pause_s * 2)
                continue
            pause_s = _FIRST_PAUSE_S
            if not self._stop.is_set():
                await wait(self._wake, self._sweep_s)


async def sweep(play: Play) -> int:
    """Archive every game of the index; how many games were archived by this call."""
    done = 0
    for queue in keys.queues(play.options):
        index = keys.complete(queue)
        skip = 0
        while waiting := await play.bus.execute("ZRANGE", index, skip, skip + _BATCH - 1):
            for raw in waiting:
                done += await _archive_or_set_aside(play, raw.decode()) == "archived"
            left = await play.bus.execute("ZRANGE", index, skip, skip + _BATCH - 1)
            skip += len(set(waiting) & set(left))
    return done


async def take_up_again(play: Play) -> int:
    """Put the games that were set aside back on the list, for a new release or a repaired store; how many."""
    moved = 0
    for queue in keys.queues(play.options):
        for game_id, at_ms in await play.bus.execute("ZRANGE", keys.refused(queue), 0, -1, "WITHSCORES"):
            await play.bus.execute("ZADD", keys.complete(queue), int(at_ms), game_id)
            await play.bus.execute("ZREM", keys.refused(queue), game_id)
            moved += 1
    return moved


async def _archive_or_set_aside(play: Play, game_id: str) -> Outcome:
    """`archive`, but a game that cannot be archived for a reason of its own does not hold up the others."""
    try:
        return await archive(play, game_id)
    except (StoreUnavailable, ConnectionFault, ServerFull):
        raise
    except Exception:
        _log.exception("game %s cannot be archived and is set aside", game_id)
        await _set_aside(play, game_id)
        return "refused"


async def archive(play: Play, game_id: str) -> Outcome:
    """Archive one settled game. Calling it again changes nothing. Raises StoreUnavailable, after which repeat it."""
    queue = keys.queue(play.options, game_id)
    for _ in range(_ROUNDS):
        reached = await read_watermark(play.store, queue, game_id)
        records = await _live(play, game_id, reached)
        if not records:
            outcome: Outcome = "already" if reached else "gone"
            await _let_go(play, game_id, reached)
            return outcome
        game = await _rows(play, game_id, records, reached)
        for first in range(0, len(records), _SEGMENT):
            page = records[first : first + _SEGMENT]
            last = first + _SEGMENT >= len(records)
            answer = await fold_game(play.store, queue, game_id, page, game if last else None, reached)
            match answer:
                case Archived(watermark) | AlreadyFolded(watermark):
                    reached = watermark
                case ArchiveConflict(kind="moved"):
                    break
                case ArchiveConflict():
                    _log.error("game %s cannot be archived (%s): %s", game_id, answer.kind, answer.detail)
                    await _set_aside(play, game_id)
                    return "refused"
        else:
            await _let_go(play, game_id, reached)
            return "archived"
    _log.warning("game %s is being archived by somebody else", game_id)
    return "already"


async def _live(play: Play, game_id: str, reached: Watermark | None) -> list[StreamRecord]:
    """The good records above the watermark; the others go to the quarantine and are passed over."""
    last = ids.parse(reached.id).stream_id if reached else ""
    records: list[StreamRecord] = []
    for _ in range(views.MAX_PAGES):
        page = await views.page_after(play, game_id, last)
        for item in page:
            if isinstance(item, views.Malformed):
                await _quarantine(play, game_id, item)
            else:
                records.append(item.record)
        if len(page) < views.PAGE:
            break
        last = views.place(page[-1])
    return records


async def _rows(
    play: Play, game_id: str, records: list[StreamRecord], reached: Watermark | None
) -> ArchivedGame | None:
    """The rows of the whole stream; None when they are written already or the stream makes none."""
    if reached is not None:
        if await read_game(play.store, game_id) is not None:
            return None
        records = [*await read_records(play.store, game_id), *records]
    try:
        state = GameState().apply_all(views.event_of(record) for record in records)
        room_id = state.opened.room if state.opened else None
        room = await rooms.get(play, room_id) if room_id else None
        people = await players.get_many(play, rows.players_of(state))
        game = rows.archived_game(game_id, records, state, room, people)
    except FoldError as error:
        _log.error("game %s is archived without rows, its stream makes no game: %s", game_id, error)
        return None
    if game is None:
        _log.error("game %s is archived without rows: its stream lacks the opening or the close", game_id)
    return game


async def _let_go(play: Play, game_id: str, reached: Watermark | None) -> None:
    """After the commit: trim by id up to the watermark, shorten the life of the rest, take it off the index."""
    queue = keys.queue(play.options, game_id)
    if reached is not None:
        await streams.set_archived(play.bus, queue, game_id, reached.id)
        keep_from = ids.from_stream_id("EVT", following(ids.parse(reached.id).stream_id))
        await streams.trim(play.bus, queue, game_id, streams.MinId(keep_from))
    game = await games.refresh(play, game_id)
    room_id = game.room if game else ids.rebrand(game_id, "ROM")  # the room's own key is not among those that go
    keep_ms = play.options.archived_keep_ms
    await play.bus.execute("DEL", keys.secret(queue, game_id))
    await play.bus.all([("PEXPIRE", key, keep_ms, "LT") for key in keys.expiring(play.options, game_id, room_id)])
    for index in (keys.complete(queue), keys.refused(queue), keys.unarchived(queue)):
        await play.bus.execute("ZREM", index, game_id)


async def _set_aside(play: Play, game_id: str) -> None:
    """A game that the store does not take: keep its live copy for an operator, out of the archiver's way."""
    queue = keys.queue(play.options, game_id)
    await play.bus.execute("ZADD", keys.refused(queue), play.clock.now_ms(), game_id)
    await play.bus.execute("ZREM", keys.complete(queue), game_id)


async def _quarantine(play: Play, game_id: str, item: views.Malformed) -> None:
    """Keep a bad record aside, once; beyond `QUARANTINE_KEEP` it is only logged."""
    key = keys.quarantine(keys.queue(play.options, game_id))
    _log.error("record %s of game %s is not an event and is left out: %s", item.id, game_id, item.error)
    if await play.bus.execute("HLEN", key) < QUARANTINE_KEEP:
        await play.bus.execute("HSETNX", key, f"{game_id}:{item.id}", views.raw(item))
        await play.bus.execute("PEXPIRE", key, play.options.mapping_keep_ms)
