"""The command menu that Telegram shows next to the text field, per kind of chat and per language."""

from __future__ import annotations

from aiogram import Bot
from aiogram.types import BotCommand, BotCommandScopeAllGroupChats, BotCommandScopeAllPrivateChats

from codemojex.bot.texts import FALLBACK, Texts

PRIVATE = ("play", "guess", "board", "history", "lock", "unlock", "end", "verify", "rules", "help")
GROUP = ("play", "guess", "board", "history", "end", "vote_end", "verify", "rules", "help")


async def publish_menu(bot: Bot, texts: Texts) -> None:
    """Tell Telegram the commands; the same call again changes nothing. Raises the Bot API's errors."""
    for language in texts.languages():
        code = None if language == FALLBACK else language
        await bot.set_my_commands(_commands(texts, language, PRIVATE), BotCommandScopeAllPrivateChats(), code)
        await bot.set_my_commands(_commands(texts, language, GROUP), BotCommandScopeAllGroupChats(), code)


def _commands(texts: Texts, language: str, names: tuple[str, ...]) -> list[BotCommand]:
    words = texts.of(language)
    return [BotCommand(command=name, description=words.plain(f"menu-{name}")) for name in names]
