"""Orders to tell somebody something: jobs on the outbound queue, one lane per chat.

Every order is named, so that a repeated handler tells nothing twice. Boards and composers that wait are coalesced:
at most one waits per game or player. Sending is the bot's work.
"""

from __future__ import annotations

from collections.abc import Sequence

from codemojex.engine import ids
from codemojex.engine.jobs.jobs import AdmissionRefused, Dedup, Enqueued, NewJob, admit, admit_many
from codemojex.engine.lanes import lanes
from codemojex.play import rooms
from codemojex.play.context import Play
from codemojex.play.games import GameSnapshot
from codemojex.play.outbound.messages import Board, Composer, Edit, Markup, Message, ResultOrder, Say, encode
from codemojex.play.outbound.sent import Sent, board_sent_effect, board_was_sent, forget_board, sent_board
from codemojex.play.rooms import Room

__all__ = [
    "Sent", "board", "board_order", "board_sent_effect", "board_was_sent", "composer", "composer_order", "edit",
    "forget_board", "lane", "order_many", "result", "result_order", "say", "sent_board",
]  # fmt: skip

_WAITING_MS = 3_600_000  # a coalesced order that nobody claimed for an hour makes room for another
MAX_BEFORE = 5  # messages that wait for a chat until mere answers are left out


def lane(chat_id: int) -> str:
    """The lane of everything that is said in a chat; its brand tells private chats (CHT) from groups (GRP)."""
    return ids.derive("CHT" if chat_id > 0 else "GRP", str(chat_id))


async def say(
    play: Play,
    chat_id: int,
    thread_id: int | None,
    text: str,
    *,
    key: str,
    reply_to: int | None = None,
    markup: Markup | None = None,
    receiver: int | None = None,
    window_ms: int | None = None,
    spare: bool = False,
) -> bool:
    """Order `text` (HTML) for a chat, or for its member `receiver` alone.

    `key` names it; False when the key was used within `window_ms` (a day). A `spare` text is left out while
    `MAX_BEFORE` messages wait for the chat: its boards and results shall not stand behind answers to a few.
    """
    if spare and await lanes.depth(play.bus, play.options.outbound, lane(chat_id)) >= MAX_BEFORE:
        return False
    message = Say(
        chat_id=chat_id, thread_id=thread_id, text=text, key=key, reply_to=reply_to, markup=markup, receiver=receiver
    )
    return await _order(play, message, Dedup(f"say-{key}", window_ms or play.options.said_window_ms))


async def edit(play: Play, chat_id: int, message_id: int, text: str, *, key: str, markup: Markup | None = None) -> bool:
    """Order the replacement of one of the bot's messages; named like `say`."""
    message = Edit(chat_id=chat_id, message_id=message_id, text=text, markup=markup)
    return await _order(play, message, Dedup(f"edit-{key}", play.options.said_window_ms))


async def board(play: Play, game: GameSnapshot, *, fresh: bool = False) -> bool:
    """Order the game's board; False when one waits already. `fresh` wants a new message below the talk."""
    room = await rooms.get(play, game.room)
    return room is not None and await _order(play, *board_order(game.id, room, fresh=fresh))


async def result(play: Play, game: GameSnapshot, event_id: str) -> bool:
    """Order the announcement of the game's end, once per event."""
    room = await rooms.get(play, game.room)
    return room is not None and await _order(play, *result_order(play, game.id, room, event_id))


async def composer(
    play: Play,
    player_id: str,
    game_id: str,
    chat_id: int,
    thread_id: int | None,
    *,
    fresh: bool = False,
    pressed: int | None = None,
) -> bool:
    """Order the player's guess builder in a chat; False when one waits already."""
    order = composer_order(player_id, game_id, chat_id, thread_id, fresh=fresh, pressed=pressed)
    return await _order(play, *order)


def board_order(game_id: str, room: Room, *, fresh: bool = False) -> tuple[Message, Dedup]:
    """The order of a board and its name: one waits per game, and one that wants a new message."""
    message = Board(chat_id=room.chat_id, thread_id=room.thread_id, game=game_id, room=room.id, fresh=fresh)
    name = f"board-fresh-{game_id}" if fresh else f"board-{game_id}"
    return message, Dedup(name, _WAITING_MS, release="claim")


def composer_order(
    player_id: str,
    game_id: str,
    chat_id: int,
    thread_id: int | None,
    *,
    fresh: bool = False,
    pressed: int | None = None,
) -> tuple[Message, Dedup]:
    """The order of a composer and its name: one waits per player and game, and one that wants a new message."""
    message = Composer(
        chat_id=chat_id, thread_id=thread_id, player=player_id, game=game_id, fresh=fresh, pressed=pressed
    )
    name = f"composer-fresh-{player_id}-{game_id}" if fresh else f"composer-{player_id}-{game_id}"
    return message, Dedup(name, _WAITING_MS, release="claim")


def result_order(play: Play, game_id: str, room: Room, event_id: str, *, late: bool = False) -> tuple[Message, Dedup]:
    """The order of a result and its name, the event's id."""
    message = ResultOrder(
        chat_id=room.chat_id, thread_id=room.thread_id, game=game_id, room=room.id, event=event_id, late=late
    )
    return message, Dedup(f"result-{event_id}", play.options.result_window_ms)


async def order_many(play: Play, orders: Sequence[tuple[Message, Dedup]]) -> None:
    """Order many messages in one round trip. Raises RuntimeError when the queue refused one (memory full, say)."""
    jobs = [_job(play, message, dedup) for message, dedup in orders]
    for verdict in await admit_many(play.bus, play.options.outbound, jobs):
        if isinstance(verdict, AdmissionRefused):
            raise RuntimeError(f"an outbound order was refused: {verdict.reason}")


async def _order(play: Play, message: Message, dedup: Dedup) -> bool:
    return isinstance(await admit(play.bus, play.options.outbound, _job(play, message, dedup)), Enqueued)


def _job(play: Play, message: Message, dedup: Dedup) -> NewJob:
    return NewJob(play.mint.mint("JOB"), encode(message), lane=lane(message.chat_id), dedup=dedup)
