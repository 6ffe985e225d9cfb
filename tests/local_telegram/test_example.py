"""The example of the documentation's page runs as it stands there, with a bot that answers."""

from __future__ import annotations

import asyncio
from typing import Any

from aiogram import Bot
from aiogram.types import InlineKeyboardButton, InlineKeyboardMarkup

from codemojex.local_telegram import LocalTelegram
from tests.architecture.sources import ROOT
from tests.support.pages import blocks, run
from tests.support.telegram import People

PAGE = ROOT / "docs/explanation/local-telegram.md"


async def test_the_example_of_the_page_runs(telegram: LocalTelegram, bot: Bot) -> None:
    async def play() -> None:
        """Show a board to whom presses Start, and answer one press."""
        offset = 0
        while True:
            for update in await bot.get_updates(offset=offset, timeout=5):
                offset = update.update_id + 1
                if update.message is not None:
                    keyboard = [[InlineKeyboardButton(text="🍕", callback_data="k:1")]]
                    await bot.send_message(
                        update.message.chat.id,
                        "Guess the code",
                        reply_markup=InlineKeyboardMarkup(inline_keyboard=keyboard),
                    )
                if update.callback_query is not None:
                    await bot.answer_callback_query(update.callback_query.id, f"pressed {update.callback_query.data}")
                    return

    (block,) = blocks(PAGE.read_text(encoding="utf-8"), "python")
    space: dict[str, Any] = {"People": People, "telegram": telegram}
    async with asyncio.timeout(30), asyncio.TaskGroup() as tasks:
        tasks.create_task(play())
        await run(block, PAGE, space)
    assert space["board"]["text"] == "Guess the code"
    assert space["answer"]["text"] == "pressed k:1"
