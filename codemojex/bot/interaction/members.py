"""Who may see a game and act in it: the one question that every view and every act asks.

A solo game is its starter's alone. A group's game is for whoever acts in its own chat, and elsewhere for the members
of its group: Telegram is asked. A refusal is an answer: out. Only silence (no connection, a sick server, a flood
limit) is `unknown`: a guess and a view pass then, for a game shall not stop with a question; a vote and an end do not.
"""

from __future__ import annotations

import logging
from typing import Literal, Protocol

from aiogram import Bot
from aiogram.types import CallbackQuery, ChatMember, ChatMemberBanned, ChatMemberLeft, ChatMemberRestricted

from codemojex.bot.interaction.answers import answer
from codemojex.bot.interaction.scene import Desk, Scene
from codemojex.bot.telegram.errors import TelegramFault, classify
from codemojex.game.presets import GameSettings
from codemojex.play import games, rooms
from codemojex.play.games import GameSnapshot
from codemojex.play.outbound import orders
from codemojex.play.people import membership
from codemojex.play.people.players import Player
from codemojex.play.views import views

log = logging.getLogger(__name__)
ASK_S = 5
SILENCE = frozenset(
    {
        TelegramFault.FLOOD,
        TelegramFault.UNAUTHORIZED,
        TelegramFault.CONFLICT,
        TelegramFault.SERVER,
        TelegramFault.NEVER_SENT,
        TelegramFault.UNKNOWN_OUTCOME,
    }
)

Standing = Literal["in", "out", "unknown"]


class Ground(Protocol):
    """What the answer depends on: a `GameSnapshot` has it, and so has the event that opened a game."""

    @property
    def room(self) -> str: ...

    @property
    def starter(self) -> str: ...

    @property
    def settings(self) -> GameSettings: ...


async def standing(bot: Bot, desk: Desk, player: Player, game: Ground, here: str = "") -> Standing:
    """Whether the player may see the game and act in it; `here` is the room in whose chat they act."""
    if game.settings.mode in ("solo", "daily"):
        return "in" if game.starter == player.id else "out"
    if game.room == here:
        return "in"
    room = await rooms.get(desk.play, game.room)
    if room is None:
        return "out"  # the room of a game that is on is never forgotten, and nobody can be asked about another
    if await membership.is_known(desk.play, room.chat_id, player.user_id):
        return "in"
    found = await _asked(bot, room.chat_id, player.user_id)
    if found == "in":
        await membership.was_seen(desk.play, room.chat_id, player.user_id)
    return found


async def may(bot: Bot, scene: Scene, game: Ground) -> Standing:
    """`standing` of the scene's player, who acts in the scene's room."""
    return await standing(bot, scene.desk, scene.player, game, scene.room.id)


async def shut_out(bot: Bot, scene: Scene, game: GameSnapshot | str, *, sure: bool = False) -> bool:
    """Whether the player may not see this game or act in it; then they are told, and their composer of it goes.

    A `sure` act is refused as well while Telegram is silent.
    """
    game_id, on = (game, await ground(scene, game)) if isinstance(game, str) else (game.id, game)
    member = "in" if on is None else await may(bot, scene, on)  # there is nothing to see of an unknown game
    if member == "in" or (member == "unknown" and not sure):
        return False
    if member == "unknown":
        await scene.whisper(scene.words("member-unsure"))
        return True
    solo = on is not None and on.settings.mode == "solo"
    await scene.whisper(scene.words("refused-not_yours" if solo else "not-a-member"), kind=f"{game_id}-outsider")
    if scene.private:
        await orders.composer(scene.play, scene.player.id, game_id, scene.room.chat_id, scene.room.thread_id)
    return True


async def shut_out_press(bot: Bot, scene: Scene, game_id: str, query: CallbackQuery, *, sure: bool = False) -> bool:
    """`shut_out` for a button: told by a toast, and a composer that was pressed goes."""
    game = await ground(scene, game_id)
    member = "in" if game is None else await may(bot, scene, game)
    if member == "in" or (member == "unknown" and not sure):
        return False
    words = scene.desk.texts.of(query.from_user.language_code)
    if member == "unknown":
        await answer(bot, query, words.plain("member-unsure"), alert=True)
        return True
    await answer(bot, query, words.plain("not-a-member-toast"))
    if scene.private:
        room = scene.room
        await orders.composer(
            scene.play, scene.player.id, game_id, room.chat_id, room.thread_id, pressed=scene.message_id
        )
    return True


async def ground(scene: Scene, game_id: str) -> Ground | None:
    """What decides about a game, also about one that is archived; None when the game is not known."""
    game = await games.snapshot(scene.play, game_id)
    if game is not None:
        return game
    state = await views.view(scene.play, game_id)
    return state.opened if state else None


async def _asked(bot: Bot, chat_id: int, user_id: int) -> Standing:
    if chat_id > 0:  # a private chat is its person's
        return "in" if chat_id == user_id else "out"
    try:
        try:
            member = await bot.get_chat_member(chat_id, user_id, request_timeout=ASK_S)
        except Exception as error:
            if (met := classify(error)).fault is not TelegramFault.MIGRATED:
                raise
            member = await bot.get_chat_member(met.migrated_to, user_id, request_timeout=ASK_S)
    except Exception as error:
        met = classify(error)
        log.info("whether somebody is in a chat was not told: %s", met.fault)
        return "unknown" if met.fault in SILENCE else "out"
    return "in" if present(member) else "out"


def present(member: ChatMember) -> bool:
    """Whether this is somebody who is in the chat."""
    gone = isinstance(member, ChatMemberLeft | ChatMemberBanned)
    return not gone and (not isinstance(member, ChatMemberRestricted) or member.is_member)
