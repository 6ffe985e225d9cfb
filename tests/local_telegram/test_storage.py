"""A restarted server shows the same chats and hands out the same updates."""

import asyncio
import json
from pathlib import Path

import pytest
from aiogram.types import InlineKeyboardButton, InlineKeyboardMarkup

from codemojex.local_telegram import LocalTelegram
from codemojex.local_telegram.server import NEXT_PORTS
from codemojex.local_telegram.state.storage import SAVE_DELAY_S
from tests.local_telegram.conftest import bot_for, drain
from tests.support.telegram import People


async def test_everything_survives_a_restart(tmp_path: Path):
    file = tmp_path / "telegram.json"
    first = LocalTelegram(data_file=file)
    await first.start()
    bot = bot_for(first)
    async with People(first.url) as people:
        ada = await people.add_person("Ada", "ada", "en")
        await people.start(ada)
        group = await people.add_group("Talk", [ada], forum=True)
        await people.topic(ada, group, "Daily")
        await drain(bot)
        rows = [[InlineKeyboardButton(text="x", callback_data="x")]]
        sent = await bot.send_message(ada, "hello", reply_markup=InlineKeyboardMarkup(inline_keyboard=rows))
        await bot.set_my_description("A bot")
        await people.press(ada, ada, sent.message_id, "x", wait_s=0.01)
        state, messages = await people.state(), await people.messages(ada)
    await bot.session.close()
    await first.stop()

    second = LocalTelegram(data_file=file)
    await second.start()
    bot = bot_for(second)
    async with People(second.url) as people:
        assert {**await people.state(), "version": 0} == {**state, "version": 0}
        assert await people.messages(ada) == messages
        update = (await bot.get_updates())[0]
        await bot.answer_callback_query(update.callback_query.id)
        assert (await people.send(ada, ada, "next"))["message_id"] == sent.message_id + 1
        assert (await bot.get_updates())[1].update_id == update.update_id + 1
        assert await people.add_person("Boris") == ada + 1
    await bot.session.close()
    await second.stop()


async def test_a_change_is_saved_soon_without_a_stop(tmp_path: Path):
    assert SAVE_DELAY_S <= 0.5
    file = tmp_path / "telegram.json"
    telegram = LocalTelegram(data_file=file)
    await telegram.start()
    async with People(telegram.url) as people:
        await people.add_person("Ada")
    async with asyncio.timeout(15):
        while not file.exists():
            await asyncio.sleep(0.02)
    assert "Ada" in str(json.loads(file.read_text()))
    assert telegram.token not in file.read_text()
    await telegram.stop()


async def test_two_servers_cannot_share_a_file(tmp_path: Path):
    first = LocalTelegram(data_file=tmp_path / "t.json")
    await first.start()
    with pytest.raises(RuntimeError, match="in use by another local Telegram"):
        await LocalTelegram(data_file=tmp_path / "t.json").start()
    await first.stop()


async def test_a_busy_port_gives_way_to_the_next_free_one():
    first = LocalTelegram()
    await first.start()
    second = LocalTelegram(port=first.port)
    await second.start()
    assert first.port < second.port <= first.port + NEXT_PORTS
    await second.stop()
    await first.stop()


async def test_a_broken_file_is_named(tmp_path: Path):
    file = tmp_path / "t.json"
    file.write_text("{")
    with pytest.raises(RuntimeError, match="is not a state of the local Telegram"):
        await LocalTelegram(data_file=file).start()


async def test_a_stop_lets_waiting_polls_go(tmp_path: Path):
    telegram = LocalTelegram()
    await telegram.start()
    bot = bot_for(telegram)
    async with asyncio.timeout(15), asyncio.TaskGroup() as tasks:
        poll = tasks.create_task(bot.get_updates(timeout=50))
        async with People(telegram.url) as people:
            await people.get("state")
        await telegram.stop()
    assert poll.result() == []
    await bot.session.close()
