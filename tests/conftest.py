"""Fixtures for every test: one real Valkey per test process, and a queue name that nobody else uses."""

from __future__ import annotations

import gc
import uuid
from collections.abc import AsyncIterator, Callable, Iterator

import pytest
from hypothesis import settings

from codemojex.engine.transport.connector import Connector
from tests.support.valkey import ValkeyServer

# How long one example takes says something about the machine, not about the property.
settings.register_profile("codemojex", deadline=None, print_blob=True)
settings.load_profile("codemojex")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The long ones first, those with the most time: whoever begins one at the end lets the others wait for it."""
    items.sort(key=_most_s, reverse=True)


def pytest_collection_finish() -> None:
    """What was imported stays: the collector of garbage need not look at it after every few tests."""
    gc.collect()
    gc.freeze()


def _most_s(item: pytest.Item) -> float:
    marker = item.get_closest_marker("timeout")
    return marker.args[0] if marker else 0.0


@pytest.fixture(scope="session")
def valkey_server() -> Iterator[ValkeyServer]:
    """The server that the tests of this process share; do not pause, kill or flush it."""
    server = ValkeyServer()
    try:
        yield server.start()
    finally:
        server.close()


@pytest.fixture
def valkey_url(valkey_server: ValkeyServer) -> str:
    return valkey_server.url


@pytest.fixture
async def bus(valkey_url: str) -> AsyncIterator[Connector]:
    """A connector to the shared server."""
    bus = await Connector.connect(valkey_url)
    yield bus
    await bus.close()


@pytest.fixture
def start_valkey() -> Iterator[Callable[..., ValkeyServer]]:
    """Start servers of this test's own: `start_valkey(aof=True)`; they end with the test."""
    servers: list[ValkeyServer] = []

    def start(*options: str, aof: bool = False) -> ValkeyServer:
        server = ValkeyServer(*options, aof=aof)
        servers.append(server)
        return server.start()

    yield start
    for server in servers:
        server.close()


@pytest.fixture
def queue() -> str:
    """A queue name of this test's own."""
    return f"t{uuid.uuid4().hex[:12]}"
