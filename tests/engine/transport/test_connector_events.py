"""A connector tells when sockets open, are lost, come back or are missing, and what every round trip took."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any

import pytest

from codemojex.engine.errors import ServerError, Unavailable, UnknownOutcome
from codemojex.engine.scripts import ENGINE
from codemojex.engine.telemetry.telemetry import Telemetry
from codemojex.engine.transport.connector import Connector
from tests.support.valkey import ValkeyServer

Start = Callable[..., ValkeyServer]


class Heard:
    """What an observer was told."""

    def __init__(self) -> None:
        self.all: list[tuple[str, dict[str, Any]]] = []

    def __call__(self, name: str, data: dict[str, object]) -> None:
        self.all.append((name, data))

    def of(self, name: str) -> list[dict[str, Any]]:
        return [data for heard, data in self.all if heard == f"connector.{name}"]


async def test_every_socket_is_told_by_server_and_use(start_valkey: Start, connect: Any) -> None:
    heard, server = Heard(), start_valkey()
    bus = await connect(server.url, observe=heard)
    await bus.execute("PING")
    assert await bus.blocking("BLPOP", "k", 0.01, wait_s=0.01) is None
    where = str(server.socket_path)
    assert heard.of("connection") == [{"server": where, "use": "commands"}, {"server": where, "use": "waits"}]
    assert not heard.of("reconnect")
    await bus.close()
    assert not heard.of("disconnection")  # nothing was lost


async def test_a_round_trip_is_told_with_its_commands_its_duration_and_its_error(
    start_valkey: Start, connect: Any
) -> None:
    heard, server = Heard(), start_valkey()
    bus = await connect(server.url, observe=heard, timeout_s=0.5)
    heard.all.clear()
    await bus.pipeline([("PING",), ("PING",), ("PING",)])
    with pytest.raises(ServerError):
        await bus.execute("NONSENSE")
    await bus.at("key", "TIME")
    await bus.teach(ENGINE.script("counts"))
    server.pause()
    with pytest.raises(UnknownOutcome):
        await bus.execute("PING")
    server.resume()
    trips = heard.of("pipeline.stop")
    assert [(trip["commands"], trip.get("error")) for trip in trips] == [
        (3, None),
        (1, "ServerError"),
        (1, None),
        (1, None),
        (1, "UnknownOutcome"),
    ]
    assert trips[4]["duration"] >= 100


async def test_a_crash_is_a_disconnection_and_the_restart_a_reconnect(start_valkey: Start, connect: Any) -> None:
    heard, server = Heard(), start_valkey()
    bus = await connect(server.url, observe=heard)
    server.kill()
    with pytest.raises((Unavailable, UnknownOutcome)):
        await bus.execute("PING")
    assert len(heard.of("disconnection")) == 1
    assert not heard.of("reconnect")
    server.start()
    await bus.execute("PING")
    (back,) = heard.of("reconnect")
    assert back["use"] == "commands"
    assert back["down_ms"] >= 0
    assert len(heard.of("connection")) == 2
    await bus.execute("PING")
    assert len(heard.of("reconnect")) == 1


async def test_an_idle_socket_that_the_server_closed_is_told_when_it_is_used_again(
    start_valkey: Start, connect: Any
) -> None:
    heard = Heard()
    bus = await connect(start_valkey().url, observe=heard)
    heard.all.clear()
    await bus.execute("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "no")  # answered, then closed
    async with asyncio.timeout(15):
        while not heard.of("reconnect"):
            with contextlib.suppress(UnknownOutcome):  # noticed only by the command
                await bus.execute("PING")
    names = [name.partition(".")[2] for name, _ in heard.all if name != "connector.pipeline.stop"]
    assert names == ["disconnection", "connection", "reconnect"]


async def test_a_caller_beyond_the_pool_is_an_overload(start_valkey: Start, connect: Any) -> None:
    heard = Heard()
    bus = await connect(start_valkey().url, observe=heard, timeout_s=1.0, max_blocking=1)
    first = asyncio.create_task(bus.blocking("BLPOP", "k", 5, wait_s=5))
    async with asyncio.timeout(15):
        while b"blocked_clients:1" not in await bus.execute("INFO", "clients"):
            await asyncio.sleep(0.01)
    assert not heard.of("overload")
    with pytest.raises(Unavailable):
        await bus.blocking("BLPOP", "k", 5, wait_s=5)
    (over,) = heard.of("overload")
    assert (over["use"], over["pending"]) == ("waits", 1)
    await bus.execute("RPUSH", "k", "v")
    assert await first == [b"k", b"v"]


async def test_a_server_that_is_not_there_is_neither_lost_nor_overloaded(start_valkey: Start) -> None:
    heard, server = Heard(), start_valkey()
    server.kill()
    with pytest.raises(Unavailable):
        await Connector.connect(server.url, observe=heard)
    assert [name for name, _ in heard.all] == ["connector.pipeline.stop"]


async def test_a_password_is_never_told(start_valkey: Start, connect: Any) -> None:
    heard, server = Heard(), start_valkey()
    await (await connect(server.url)).execute("CONFIG", "SET", "requirepass", "hush")
    bus = await connect(server.url.replace("unix://", "unix://:hush@"), observe=heard)
    await bus.execute("PING")
    assert heard.of("connection")
    assert "hush" not in str(heard.all)


async def test_telemetry_turns_them_into_the_protocols_names(start_valkey: Start, connect: Any) -> None:
    told: list[tuple[str, dict[str, float], dict[str, object]]] = []
    telemetry = Telemetry()
    telemetry.attach(lambda event, numbers, about: told.append((event, dict(numbers), dict(about))))
    server = start_valkey()
    await connect(server.url, observe=telemetry.observe)
    opened, trip = told
    assert opened == ("emq.connector.connection", {}, {"server": str(server.socket_path), "use": "commands"})
    assert trip[0] == "emq.connector.pipeline.stop"
    assert trip[1]["commands"] == 1
    assert set(trip[1]) == {"commands", "duration"}
