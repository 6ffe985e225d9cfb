"""Chats and topics that the bot may not write to: what is known of them, and what they have missed.

While a place is silent its boards and texts are let go; games and their deadlines go on. The result of a game that
ended there is kept. `end` is called when the bot may write again: the kept result is ordered then, and below it the
live game's board. It lives in the slot of the outbound queue, for `Options.mapping_keep_ms` since it began or since a
result was kept; a place that is forgotten is found silent again by the next message.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from codemojex.engine.jobs.jobs import Dedup
from codemojex.play import games, keys, rooms
from codemojex.play.context import Play
from codemojex.play.outbound import orders as outbound
from codemojex.play.outbound.messages import Message, ResultOrder

Why = Literal["no_rights", "gone"]


class Silence(msgspec.Struct, frozen=True, omit_defaults=True):
    """Why nothing can be written, and the last result that was not told."""

    why: Why
    owed: ResultOrder | None = None


async def of(play: Play, chat_id: int, thread_id: int | None) -> Silence | None:
    """What is known of a silent place; None when it is not silent."""
    found = await play.bus.execute("GET", keys.silent(play.options, chat_id, thread_id))
    return None if found is None else msgspec.json.decode(found, type=Silence)


async def begin(play: Play, chat_id: int, thread_id: int | None, why: Why) -> bool:
    """From now on the place is silent; False when it was already."""
    return await _put(play, chat_id, thread_id, Silence(why), "NX")


async def owe(play: Play, result: ResultOrder) -> None:
    """Keep a result until its silent place can be written to; a later one takes the place of an earlier."""
    known = await of(play, result.chat_id, result.thread_id)
    if known is not None:
        await _put(play, result.chat_id, result.thread_id, Silence(known.why, result), "XX")


async def end(play: Play, chat_id: int, thread_id: int | None) -> bool:
    """The place can be written to again: order what it missed. False when it was not silent.

    Called twice it orders nothing twice. Raises StoreUnavailable as `rooms.find` does, and the place stays silent.
    """
    known = await of(play, chat_id, thread_id)
    if known is None:
        return False
    orders: list[tuple[Message, Dedup]] = []
    if (owed := known.owed) is not None:
        room = await rooms.get(play, owed.room)
        if room is not None:
            orders.append(outbound.result_order(play, owed.game, room, f"{owed.event}-late", late=True))
            orders.append(outbound.board_order(owed.game, room))
    room = await rooms.find(play, chat_id, thread_id)
    game = await games.live_game(play, room.id) if room else None
    if room is not None and game is not None:
        board, dedup = outbound.board_order(game.id, room, fresh=True)
        if owed is not None:  # a name of its own: a board that waits already would stand above the late result
            dedup = Dedup(f"board-after-{owed.event}", play.options.result_window_ms)
        orders.append((board, dedup))
    # First the key, or what is ordered would be let go.
    await play.bus.execute("DEL", keys.silent(play.options, chat_id, thread_id))
    if orders:
        await outbound.order_many(play, orders)
    return True


async def end_everywhere(play: Play, chat_id: int) -> None:
    """`end` for a chat and all of its topics."""
    topics: set[bytes] = set(await play.bus.execute("SMEMBERS", keys.chat_rooms(play.options, chat_id)))
    for thread_id in sorted({0, *(int(topic) for topic in topics)}):
        await end(play, chat_id, thread_id or None)


async def _put(play: Play, chat_id: int, thread_id: int | None, silence: Silence, when: Literal["NX", "XX"]) -> bool:
    key, value = keys.silent(play.options, chat_id, thread_id), msgspec.json.encode(silence)
    return await play.bus.execute("SET", key, value, when, "PX", play.options.mapping_keep_ms) is not None
