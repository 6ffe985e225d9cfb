"""Stopping a game: `/end` for its starter and admins, `/vote_end` for everybody."""

from __future__ import annotations

from aiogram import Bot, Router
from aiogram.types import Message

from codemojex.bot import votes
from codemojex.bot.admins import is_admin
from codemojex.bot.anonymous import tell_anonymous
from codemojex.bot.filters import Order
from codemojex.bot.members import shut_out
from codemojex.bot.scene import Desk, of_message
from codemojex.play import closing
from codemojex.play.closing import NotEnded


def build() -> Router:
    """The router of this screen."""
    router = Router(name="end")
    router.message.register(end, Order("end"))
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
    # Only where the game is played do an admin's rights count; the starter needs none.
    asks = not scene.private and game.room == scene.room.id and game.starter != scene.player.id
    by_admin = asks and await is_admin(bot, scene.room.chat_id, scene.player.user_id)
    verdict = await closing.end(desk.play, game, scene.player, by_admin, request)
    if isinstance(verdict, NotEnded):
        await scene.whisper(scene.words("end-rights" if verdict.reason == "rights" else "no-game"))


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
    if game.settings.mode == "solo":
        await scene.whisper(scene.words("vote-solo"))
        return
    if await shut_out(bot, scene, game, sure=True):
        return
    vote = await votes.cast(scene, game)
    if isinstance(vote, NotEnded):
        await scene.whisper(scene.words("no-game"))
    elif vote.again:
        await scene.whisper(scene.words("vote-again", count=vote.count, needed=vote.needed))
    elif scene.private and not vote.closed:
        await scene.whisper(scene.words("vote-sent", count=vote.count, needed=vote.needed))
