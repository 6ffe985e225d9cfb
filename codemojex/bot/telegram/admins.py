"""Asks Telegram who may decide for a group."""

from __future__ import annotations

import logging

from aiogram import Bot
from aiogram.types import ChatMemberAdministrator, ChatMemberOwner

from codemojex.bot.telegram.errors import classify

log = logging.getLogger(__name__)


async def is_admin(bot: Bot, chat_id: int, user_id: int) -> bool:
    """Whether the user administers the chat; a question that Telegram does not answer counts as no."""
    try:
        member = await bot.get_chat_member(chat_id, user_id)
    except Exception as error:
        log.info("the rights in a chat are unknown: %s", classify(error).fault)
        return False
    return isinstance(member, ChatMemberAdministrator | ChatMemberOwner)
