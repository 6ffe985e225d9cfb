"""Turns the feed's events into orders to tell people: boards coalesce, a result is told once per event.

The feed is one stream per partition with the events of all its games. The group `outbound` orders boards and results
and refreshes what the near-cache says of a game; the group `archive` wakes the archiver. An event of a game that
nobody knows any more is passed over.
"""

from __future__ import annotations

from codemojex.engine.jobs.jobs import Dedup
from codemojex.engine.maintenance.retention_loop import RetentionPolicy
from codemojex.engine.observer import Observe
from codemojex.engine.streams.consumer import GroupOptions, GroupReader, TryLater
from codemojex.engine.streams.record import Record
from codemojex.engine.streams.retention import MaxLen
from codemojex.game.events import (
    GameClosed,
    GameCracked,
    GameExhausted,
    GameOpened,
    GameSettled,
    GuessRefused,
    GuessScored,
)
from codemojex.play import games, keys, rooms
from codemojex.play.archive.archiver import Archiver
from codemojex.play.context import Play
from codemojex.play.outbound import orders as outbound
from codemojex.play.outbound.messages import Message

KEEP = 10_000  # records that stay on a feed although every group has read them
_CHANGING = {kind.kind for kind in (GameOpened, GameCracked, GameClosed, GameSettled)}
_SHOWN = _CHANGING | {kind.kind for kind in (GuessScored, GuessRefused, GameExhausted)}


def outbound_reader(
    play: Play, queue: str, consumer: str, observe: Observe | None = None, *, lease_ms: int = 30_000
) -> GroupReader:
    """A reader of the feed of `queue` that orders boards and results.

    `consumer` is unique among living readers. What a dead reader held is taken over after `lease_ms`.
    """

    async def handle(records: list[Record]) -> None:
        await tell(play, records)

    options = GroupOptions(claim_idle_ms=lease_ms)
    return GroupReader(play.bus, queue, keys.FEED, "outbound", consumer, handle, options=options, observe=observe)


def archive_reader(
    play: Play, queue: str, consumer: str, archiver: Archiver, observe: Observe | None = None
) -> GroupReader:
    """A reader of the feed of `queue` that wakes `archiver` when a game is settled.

    It acknowledges at once: the index of settled games holds the work, so a store that is down never holds the feed.
    """

    async def handle(records: list[Record]) -> None:
        if any(record.text("kind") == GameSettled.kind for record in records):
            archiver.wake()

    return GroupReader(play.bus, queue, keys.FEED, "archive", consumer, handle, observe=observe)


def retention(queue: str) -> RetentionPolicy:
    """How much of the feed of `queue` stays although both groups have read it."""
    return RetentionPolicy(queue, keys.FEED, MaxLen(KEEP, approx=True))


async def tell(play: Play, records: list[Record]) -> None:
    """Order what the records ask for. Repeating it repeats no result; a board that waits already is enough."""
    shown: dict[str, list[Record]] = {}
    for record in records:
        if record.text("kind") in _SHOWN:
            shown.setdefault(record.text("game"), []).append(record)
    orders: list[tuple[Message, Dedup]] = []
    for game_id, events in shown.items():
        changed = any(event.text("kind") in _CHANGING for event in events)
        game = await (games.refresh if changed else games.snapshot)(play, game_id)
        room = await rooms.get(play, game.room) if game else None
        if room is None:
            continue
        orders.append(outbound.board_order(game_id, room))
        orders += [
            outbound.result_order(play, game_id, room, event.id)
            for event in events
            if event.text("kind") == GameSettled.kind
        ]
    try:
        await outbound.order_many(play, orders)
    except RuntimeError as error:
        raise TryLater(str(error)) from error
