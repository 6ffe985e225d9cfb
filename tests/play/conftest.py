"""Fixtures of the game's tests: a `Play` over a real Valkey and a real SQLite store, on queues of the test's own."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from codemojex.engine.cache.near_cache import NearCache
from codemojex.engine.transport.connector import Connector
from codemojex.store import engine
from codemojex.store.migrate import migrate
from tests.play.table import GameTable


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
