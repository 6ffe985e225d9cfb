"""Stopping a game: `/end` for its starter and admins, `/vote_end` for everybody.

A group's game that is ended from a private chat is named first: what was shown last may not be what is meant.
"""

from __future__ import annotations

from aiogram import Bot, Router
from aiogram.types import CallbackQuery, Message

from codemojex.bot.interaction import votes
from codemojex.bot.interaction.anonymous import tell_anonymous
from codemojex.bot.interaction.answers import answer
from codemojex.bot.interaction.callbacks import EndPress
from codemojex.bot.interaction.filters import Order, Pressed
from codemojex.bot.interaction.members import shut_out, shut_out_press
from codemojex.bot.interaction.scene import Desk, of_message, of_query
from codemojex.bot.sending import keyboards
from codemojex.bot.telegram.admins import is_admin
from codemojex.play import closing, games, rooms
from codemojex.play.closing import NotEnded


def build() -> Router:
    """The router of this screen."""
    router = Router(name="end")
    router.message.register(end, Order("end"))
    router.callback_query.register(confirmed, Pressed(EndPress))
    router.message.register(vote_end, Order("vote_end"))
    return router


async def end(message: Message, bot: Bot, desk: Desk, request: str) -> None:
    """End the room's game at once, by right."""
    scene = await of_message(desk, request, message)
    if scene is None:
        await tell_anonymous(desk, request, message)
        return
    game = await scene.game()
    if game is None:
        await scene.whisper(scene.words("no-game"))
        return
    if await shut_out(bot, scene, game, sure=True):
        return
    if scene.private and game.room != scene.room.id and game.starter == scene.player.id:
        room = await rooms.get(desk.play, game.room)
        text = scene.words("end-ask", room=room.title if room else "")
        await scene.say(text, markup=keyboards.end(scene.words, game.id))
        return
    # Only where the game is played do an admin's rights count; the starter needs none.
    asks = not scene.private and game.room == scene.room.id and game.starter != scene.player.id
    by_admin = asks and await is_admin(bot, scene.room.chat_id, scene.player.user_id)
    verdict = await closing.end(desk.play, game, scene.player, by_admin, request)
    if isinstance(verdict, NotEnded):
        await scene.whisper(scene.words("end-rights" if verdict.reason == "rights" else "no-game"))


async def confirmed(query: CallbackQuery, bot: Bot, desk: Desk, request: str, press: EndPress) -> None:
    """The starter means the group's game indeed."""
    scene = await of_query(desk, request, query)
    words = desk.texts.of(query.from_user.language_code)
    if scene is None or not scene.private:
        await answer(bot, query, words.plain("outdated-toast"))
        return
    if await shut_out_press(bot, scene, press.game_id, query, sure=True):
        return
    game = await games.snapshot(desk.play, press.game_id)
    verdict = None if game is None else await closing.end(desk.play, game, scene.player, False, request)
    refused = "rights-toast" if isinstance(verdict, NotEnded) and verdict.reason == "rights" else "over-toast"
    await answer(
        bot, query, words.plain(refused if verdict is None or isinstance(verdict, NotEnded) else "ended-toast")
    )


async def vote_end(message: Message, bot: Bot, desk: Desk, request: str) -> None:
    """Count a vote; who votes again is told so, and from a private chat that the group hears of it."""
    scene = await of_message(desk, request, message)
    if scene is None:
        await tell_anonymous(desk, request, message)
        return
    game = await scene.game()
    if game is None:
        await scene.whisper(scene.words("no-game"))
        return
    if await shut_out(bot, scene, game, sure=True):
        return
    if game.settings.mode == "solo":
        await scene.whisper(scene.words("vote-solo"))
        return
    vote = await votes.cast(scene, game)
    if isinstance(vote, NotEnded):
        await scene.whisper(scene.words("no-game"))
    elif vote.again:
        await scene.whisper(scene.words("vote-again", count=vote.count, needed=vote.needed))
    elif scene.private and not vote.closed:
        await scene.whisper(scene.words("vote-sent", count=vote.count, needed=vote.needed))
