"""Who was in a chat a moment ago, known to all processes: Telegram is asked once in `MEMBER_MS`, not for every act.

A yes is remembered, a no is not, so that whoever joins may play at once. When Telegram tells that somebody has left,
the yes goes, and for `LEFT_MS` no other takes its place: an answer from before the leave may still be on its way.
"""

from __future__ import annotations

from codemojex.play import games, keys, rooms
from codemojex.play.context import Play
from codemojex.play.outbound import composers
from codemojex.play.people import input_checks
from codemojex.play.people.players import Player

MEMBER_MS = 300_000
LEFT_MS = 30_000
_IN, _LEFT = b"in", b"left"


async def is_known(play: Play, chat_id: int, user_id: int) -> bool:
    """Whether the person was in the chat within `MEMBER_MS`, and has not been seen leaving."""
    return await play.bus.execute("GET", keys.member(play.options, chat_id, user_id)) == _IN


async def was_seen(play: Play, chat_id: int, user_id: int) -> None:
    """The person is in the chat, as Telegram has just answered."""
    await play.bus.execute("SET", keys.member(play.options, chat_id, user_id), _IN, "PX", MEMBER_MS, "NX")


async def came(play: Play, chat_id: int, user_id: int) -> None:
    """The person has joined the chat, as Telegram tells by itself."""
    await play.bus.execute("DEL", keys.member(play.options, chat_id, input_checks.user_id(user_id)))


async def left(play: Play, chat_id: int, user_id: int) -> None:
    """The person is out of the chat, as Telegram tells by itself."""
    await play.bus.execute(
        "SET", keys.member(play.options, chat_id, input_checks.user_id(user_id)), _LEFT, "PX", LEFT_MS
    )


async def redraw_composers(play: Play, chat_id: int, player: Player) -> int:
    """Order the player's composers for the last games of the chat's rooms; the sender looks who may see them."""
    count = 0
    for raw in sorted(await play.bus.execute("SMEMBERS", keys.chat_rooms(play.options, chat_id))):
        room = await rooms.find(play, chat_id, int(raw) or None)
        game_id = await games.last_game_id(play, room.id) if room else None
        if game_id is not None:
            count += await composers.redraw(play, game_id, player.id)
    return count
