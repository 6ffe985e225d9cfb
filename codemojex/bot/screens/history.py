"""`/history`: the player's own guesses of this conversation's game."""

from __future__ import annotations

from aiogram import Bot, Router
from aiogram.types import Message

from codemojex.bot.interaction.anonymous import tell_anonymous
from codemojex.bot.interaction.filters import Order
from codemojex.bot.interaction.members import shut_out
from codemojex.bot.interaction.scene import Desk, of_message
from codemojex.bot.sending import board_view
from codemojex.bot.texts import Html
from codemojex.play.views import views

MAX_LINES = 40


def build() -> Router:
    """The router of this screen."""
    router = Router(name="history")
    router.message.register(show, Order("history"))
    return router


async def show(message: Message, bot: Bot, desk: Desk, request: str) -> None:
    """Tell the guesses and the tries that are left; of a finished game as well."""
    scene = await of_message(desk, request, message)
    if scene is None:
        await tell_anonymous(desk, request, message)
        return
    game_id = await scene.last_game_id()
    if game_id is not None and await shut_out(bot, scene, game_id):
        return
    state = await views.view(desk.play, game_id) if game_id else None
    if state is None:
        await scene.whisper(scene.words("no-game"))
        return
    lines = board_view.history(scene.words, state, scene.player.id)
    if not lines:
        await scene.whisper(scene.words("history-none"))
        return
    left = [] if state.over else [scene.words("history-left", tries=state.tries_left(scene.player.id))]
    await scene.whisper(Html("\n".join([scene.words("history-title"), *lines[-MAX_LINES:], *left])))
