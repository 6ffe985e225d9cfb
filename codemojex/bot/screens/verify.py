"""`/verify`: re-computes the commitment of the last game from the code and nonce that were shown."""

from __future__ import annotations

from aiogram import Bot, Router
from aiogram.types import Message

from codemojex.bot.interaction.anonymous import tell_anonymous
from codemojex.bot.interaction.filters import Order
from codemojex.bot.interaction.members import shut_out
from codemojex.bot.interaction.scene import Desk, of_message
from codemojex.bot.texts import Html
from codemojex.play.views import views


def build() -> Router:
    """The router of this screen."""
    router = Router(name="verify")
    router.message.register(verify, Order("verify"))
    return router


async def verify(message: Message, bot: Bot, desk: Desk, request: str) -> None:
    """Tell whether the host was fair; while the game is on, show the commitment only."""
    scene = await of_message(desk, request, message)
    if scene is None:
        await tell_anonymous(desk, request, message)
        return
    game_id = await scene.last_game_id()
    if game_id is not None and await shut_out(bot, scene, game_id):
        return
    state = await views.view(desk.play, game_id) if game_id else None
    if state is None or state.opened is None:
        await scene.whisper(scene.words("no-game"))
        return
    commitment = state.opened.commitment
    if state.closed is None:
        await scene.answer(scene.words("verify-live", commitment=commitment))
        return
    verdict = scene.words(
        "verify-good" if state.commitment_holds() else "verify-bad",
        code="".join(state.closed.secret),
        nonce=state.closed.nonce,
        commitment=commitment,
    )
    await scene.answer(Html(f"{verdict}\n\n{scene.words('verify-how')}"))
