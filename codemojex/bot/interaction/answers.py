"""Answers pressed buttons: at once, directly, and without ever failing the update over a toast."""

from __future__ import annotations

import logging

from aiogram import Bot
from aiogram.types import CallbackQuery

from codemojex.bot.sending.board_view import utf16
from codemojex.bot.telegram.errors import TelegramFault, classify

log = logging.getLogger(__name__)
TOAST_LIMIT = 200  # UTF-16 units


async def answer(bot: Bot, query: CallbackQuery, text: str = "", *, alert: bool = False) -> None:
    """Show `text` to who pressed, or just stop the button's spinner. A query that is too old is nobody's fault."""
    try:
        await bot.answer_callback_query(query.id, text=cut(text) or None, show_alert=alert or None)
    except Exception as error:
        met = classify(error)
        if met.fault is not TelegramFault.QUERY_EXPIRED:
            log.info("a button was not answered: %s %s", met.fault, met.reason)


def cut(text: str) -> str:
    """`text` within a toast's limit."""
    if utf16(text) <= TOAST_LIMIT:
        return text
    while utf16(text) > TOAST_LIMIT - 1:
        text = text[:-1]
    return text + "…"
