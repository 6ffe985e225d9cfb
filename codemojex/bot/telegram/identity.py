"""Who the bot is: the first call to Telegram, which proves the token and tells what the bot may see in groups."""

from __future__ import annotations

from dataclasses import dataclass

from aiogram import Bot

from codemojex.bot.telegram.errors import BadToken, TelegramFault, classify


@dataclass(frozen=True, slots=True)
class Me:
    """The bot's own account. `reads_all`: privacy mode is off, plain messages of groups arrive."""

    user_id: int
    username: str
    reads_all: bool


async def identify(bot: Bot) -> Me:
    """Ask Telegram who the bot is. Raises BadToken, or whatever keeps Telegram from answering."""
    try:
        me = await bot.get_me()
    except Exception as error:
        if classify(error).fault is TelegramFault.UNAUTHORIZED:
            raise BadToken from None
        raise
    return Me(me.id, me.username or "", bool(me.can_read_all_group_messages))
