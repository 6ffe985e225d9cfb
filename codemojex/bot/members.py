"""Whether somebody who plays a group's game from a private chat belongs to that group: Telegram is asked.

A yes is remembered for some minutes by this process, a no is not, so that whoever joins the group plays at once. What
Telegram does not answer is `unknown`: a guess passes then, for a game shall not stop with a question; a vote does not.
"""

from __future__ import annotations

import logging
from typing import Literal

from aiogram import Bot
from aiogram.types import ChatMemberBanned, ChatMemberLeft, ChatMemberRestricted

from codemojex.play import rooms
from codemojex.play.games import Snapshot

from .errors import classify
from .scene import Scene

log = logging.getLogger(__name__)
ASK_S = 5

Standing = Literal["in", "out", "unknown"]


async def standing(bot: Bot, scene: Scene, game: Snapshot) -> Standing:
    """Whether the player is where the game is played. Whoever acts in the game's own chat is."""
    if game.room == scene.room.id:
        return "in"
    known, name = scene.desk.members, f"{game.room}:{scene.player.id}"
    if known.count(name):
        return "in"
    room = await rooms.get(scene.play, game.room)
    if room is None:
        return "unknown"
    try:
        member = await bot.get_chat_member(room.chat_id, scene.player.user_id, request_timeout=ASK_S)
    except Exception as error:
        log.info("a member of a chat is unknown: %s", classify(error).fault)
        return "unknown"
    gone = isinstance(member, ChatMemberLeft | ChatMemberBanned)
    if gone or (isinstance(member, ChatMemberRestricted) and not member.is_member):
        return "out"
    known.add(name)
    return "in"
