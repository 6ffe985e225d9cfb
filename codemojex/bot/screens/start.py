"""`/start`, `/help`, `/rules`; and the link that opens the private composer of a group's game."""

from __future__ import annotations

from aiogram import Bot, Router
from aiogram.types import Message

from codemojex.bot.interaction.filters import Order
from codemojex.bot.interaction.members import shut_out
from codemojex.bot.interaction.scene import Desk, Scene, of_message
from codemojex.bot.interaction.submission import refresh_composer
from codemojex.bot.sending import keyboards
from codemojex.bot.telegram.deep_links import read_payload
from codemojex.play import games
from codemojex.play.outbound import orders


def build() -> Router:
    """The router of this screen."""
    router = Router(name="start")
    router.message.register(start, Order("start"))
    router.message.register(help_, Order("help"))
    router.message.register(rules, Order("rules"))
    return router


async def start(message: Message, bot: Bot, desk: Desk, request: str, args: str) -> None:
    """Welcome, or straight to the composer when the link names a game."""
    scene = await of_message(desk, request, message)
    if scene is None:
        return
    if not scene.private:
        await scene.answer(scene.words("start-group"))
        return
    game_id = read_payload(args)
    if game_id is None:
        await scene.say(scene.words("start"), markup=keyboards.start(scene.words))
    else:
        await _join(bot, scene, game_id)


async def help_(message: Message, desk: Desk, request: str) -> None:
    """All commands."""
    if scene := await of_message(desk, request, message):
        await scene.answer(scene.words("help"))


async def rules(message: Message, desk: Desk, request: str) -> None:
    """The rules of the game."""
    if scene := await of_message(desk, request, message):
        await scene.answer(scene.words("rules"))


async def _join(bot: Bot, scene: Scene, game_id: str) -> None:
    """Show the game and make it the one that is played here, to those who may play it."""
    game = await games.snapshot(scene.play, game_id)
    if game is None or game.state != "open":
        await scene.say(scene.words("start-game-over"))
        return
    if await shut_out(bot, scene, game):
        return
    await scene.make_current(game)
    if game.room == scene.room.id:
        await orders.board(scene.play, game, fresh=True)
    else:
        await refresh_composer(scene, game, fresh=True)
