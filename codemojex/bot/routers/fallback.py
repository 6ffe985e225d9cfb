"""The last router: every button gets its answer, and a person in private hears what the bot understands."""

from __future__ import annotations

from aiogram import Bot, Router
from aiogram.types import CallbackQuery, Message

from codemojex.bot.answers import answer
from codemojex.bot.filters import InPrivate
from codemojex.bot.scene import Desk, of_message


def build() -> Router:
    """The router of this screen."""
    router = Router(name="fallback")
    router.message.register(unknown_text, InPrivate())
    router.callback_query.register(unknown_button)
    return router


async def unknown_text(message: Message, desk: Desk, request: str) -> None:
    """Words in private."""
    if scene := await of_message(desk, request, message):
        await scene.say(scene.words("text-unknown"))


async def unknown_button(query: CallbackQuery, bot: Bot, desk: Desk) -> None:
    """A button of an older version, or made up."""
    await answer(bot, query, desk.texts.of(query.from_user.language_code).plain("outdated-toast"))
