"""What the engine's tests share: connections of a test's own, and a hand on the keys of its queue."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from codemojex.engine.transport.connector import Connector
from tests.engine.bench import Bench


@pytest.fixture
def bench(bus: Connector, queue: str) -> Bench:
    return Bench(bus, queue)


@pytest.fixture
async def connect() -> AsyncIterator[Callable[..., Awaitable[Connector]]]:
    """Connect as `Connector.connect` does: `connect(url, timeout_s=1.0)`; closed with the test."""
    made: list[Connector] = []

    async def connect(url: str, **options: Any) -> Connector:
        made.append(await Connector.connect(url, **options))
        return made[-1]

    yield connect
    for bus in made:
        await bus.close()
