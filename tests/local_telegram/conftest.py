"""A fresh local Telegram with aiogram's own client and a few people for each test."""

import tests.support.deferred_models  # noqa: F401  # before aiogram

# isort: split
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from aiogram import Bot
from aiogram.client.session.aiohttp import AiohttpSession
from aiogram.client.telegram import TelegramAPIServer
from aiogram.types import Update

from codemojex.local_telegram import LocalTelegram
from tests.support.telegram import People


def bot_for(telegram: LocalTelegram, token: str | None = None) -> Bot:
    """aiogram's client, pointed at the local server."""
    session = AiohttpSession(api=TelegramAPIServer.from_base(telegram.url))
    return Bot(token or telegram.token, session=session)


async def drain(bot: Bot) -> list[Update]:
    """Take and confirm everything that waits."""
    updates = await bot.get_updates()
    if updates:
        await bot.get_updates(offset=updates[-1].update_id + 1)
    return updates


@pytest_asyncio.fixture
async def telegram(request: pytest.FixtureRequest) -> AsyncIterator[LocalTelegram]:
    """A running server; without sending limits unless the test has "limit" in its name."""
    server = LocalTelegram(strict="limit" in request.node.name)
    await server.start()
    yield server
    await server.stop()


@pytest_asyncio.fixture
async def people(telegram: LocalTelegram) -> AsyncIterator[People]:
    """The people's side."""
    async with People(telegram.url) as client:
        yield client


@pytest_asyncio.fixture
async def bot(telegram: LocalTelegram) -> AsyncIterator[Bot]:
    """The bot's side."""
    client = bot_for(telegram)
    yield client
    await client.session.close()


@pytest_asyncio.fixture
async def ada(people: People) -> int:
    """A person who has pressed Start."""
    user_id = await people.add_person("Ada", "ada", "en")
    await people.start(user_id)
    return user_id
