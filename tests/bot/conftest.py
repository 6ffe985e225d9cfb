"""Fixtures of the bot's tests: a local Telegram with people, a real Valkey, a durable store, all of the test's own."""

from __future__ import annotations

import tests.support.deferred_models  # noqa: F401  # before aiogram

# isort: split
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiogram import Bot

from codemojex.bot.factory import build_bot
from codemojex.engine.cache.near_cache import NearCache
from codemojex.engine.transport.connector import Connector
from codemojex.local_telegram import LocalTelegram
from codemojex.store import engine
from codemojex.store.migrate import migrate
from tests.play.table import GameTable
from tests.support.telegram import People


@pytest.fixture
async def telegram() -> AsyncIterator[LocalTelegram]:
    """Strict about everything but the sending limits, which single tests ask for as faults."""
    server = LocalTelegram(strict=False)
    await server.start()
    yield server
    await server.stop()


@pytest.fixture
async def people(telegram: LocalTelegram) -> AsyncIterator[People]:
    async with People(telegram.url) as people:
        yield people


@pytest.fixture
async def bot(telegram: LocalTelegram) -> AsyncIterator[Bot]:
    bot = build_bot(telegram.token, telegram.url, timeout_s=5)
    yield bot
    await bot.session.close()


@pytest.fixture
async def durable(tmp_path: Path) -> AsyncIterator[engine.Store]:
    url = f"sqlite+aiosqlite:///{tmp_path}/store.db"
    await migrate(url)
    store = await engine.open_store(url)
    yield store
    await engine.close(store)


@pytest.fixture
async def table(bus: Connector, queue: str, durable: engine.Store) -> AsyncIterator[GameTable]:
    """A room, people and everything that is needed to play in it."""
    near = NearCache(bus)
    table = await GameTable.lay(bus, queue, durable, near)
    async with near:
        await near.connected()
        yield table
