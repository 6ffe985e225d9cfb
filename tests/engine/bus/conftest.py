"""A bus of the test's own, on a queue that nobody else has."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from codemojex.engine import Bus


@pytest.fixture
async def front(valkey_url: str) -> AsyncIterator[Bus]:
    async with Bus.connect(valkey_url) as bus:
        yield bus
