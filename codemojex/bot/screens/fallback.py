"""The last router: every button gets its answer, and a person in private hears what the bot understands."""

from __future__ import annotations

from aiogram import Bot, Router
from aiogram.types import CallbackQuery, Message

from codemojex.bot.interaction.answers import answer
from codemojex.bot.interaction.filters import InPrivate, StrangeOrder, is_copy
from codemojex.bot.interaction.scene import Desk, of_message


def build() -> Router:
    """The router of this screen."""
    router = Router(name="fallback")
    router.message.register(unknown_text, InPrivate())
    router.message.register(unknown_order, StrangeOrder())
    router.callback_query.register(unknown_button)
    return router


async def unknown_text(message: Message, desk: Desk, request: str) -> None:
    """Words in private; or a copy of somebody's, several of which are told apart only once."""
    scene = await of_message(desk, request, message)
    if scene is None:
        return
    if is_copy(message):
        await scene.answer(scene.words("text-copied"), kind="copied")
    else:
        await scene.answer(scene.words("text-unknown"))


async def unknown_order(message: Message, desk: Desk, request: str, near: str) -> None:
    """A command that does not exist: only who typed it is told."""
    scene = await of_message(desk, request, message)
    if scene is not None:
        text = scene.words("order-near", order=near) if near else scene.words("order-unknown")
        await scene.whisper(text, kind="order")


async def unknown_button(query: CallbackQuery, bot: Bot, desk: Desk) -> None:
    """A button of an older version, or made up."""
    await answer(bot, query, desk.texts.of(query.from_user.language_code).plain("outdated-toast"))
