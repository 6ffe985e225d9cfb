"""What the engine's tests share: a connection, a queue of the test's own, and a hand on its keys."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from codemojex.engine.connector import Connector

from .bench import Bench


@pytest.fixture
async def bench(valkey_url: str, queue: str) -> AsyncIterator[Bench]:
    bus = await Connector.connect(valkey_url)
    bench = Bench(bus, queue)
    yield bench
    await bus.close()
