"""The program's limits stand on the server: set once, set again after a loss, never against an operator."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any
from unittest.mock import Mock

import pytest

from codemojex import app, deferred_aiogram, logs
from codemojex.engine import ids, keyspace
from codemojex.engine.clock import SystemClock
from codemojex.engine.errors import VersionFence
from codemojex.engine.ids import Minter
from codemojex.engine.jobs import jobs
from codemojex.engine.jobs.jobs import NewJob
from codemojex.engine.lanes import limits
from codemojex.engine.transport.connector import Connector
from codemojex.play.context import Play
from codemojex.roles.internal import Observers
from codemojex.roles.limits_keeper import MARK, Keeper, on_reconnect
from codemojex.settings import Settings, load_settings
from tests.support.valkey import ValkeyServer
from tests.support.waiting import until

QUEUES = ("cm.in", "cm", "cm.out")


@pytest.fixture
def server(start_valkey: Callable[..., ValkeyServer]) -> ValkeyServer:
    """A server that the test may flush."""
    return start_valkey()


@pytest.fixture
async def bus(server: ValkeyServer) -> AsyncIterator[Connector]:
    bus = await Connector.connect(server.url, timeout_s=2.0)
    yield bus
    await bus.close()


def settings(**given: object) -> Settings:
    return load_settings(env_file=None, **given)


async def meta(bus: Connector, queue: str) -> dict[str, str]:
    found = await bus.execute("HGETALL", keyspace.of(queue).key("meta"))
    return {name.decode(): value.decode() for name, value in found.items() if name.decode() != MARK}


async def _same(bus: Connector, before: list[dict[str, str]]) -> bool:
    return await metas(bus) == before


async def metas(bus: Connector) -> list[dict[str, str]]:
    return [await meta(bus, queue) for queue in QUEUES]


@asynccontextmanager
async def at_work(*keepers: Keeper) -> AsyncGenerator[None]:
    async with asyncio.TaskGroup() as tasks:
        for keeper in keepers:
            tasks.create_task(keeper.run())
        try:
            yield
        finally:
            for keeper in keepers:
                keeper.stop()


async def test_limits_come_back_after_the_data_is_lost_with_one_line_and_one_event_each(
    bus: Connector, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    told: list[tuple[str, object]] = []
    renewed = asyncio.Event()

    async def renew() -> None:
        renewed.set()

    def observe(event: str, data: dict[str, object]) -> None:
        told.append((event, data.get("queue")))

    keeper = Keeper(bus, settings(), beat_s=0.05, observe=observe, on_loss=renew)
    await keeper.look()
    before = await metas(bus)
    assert before[0] == {"lane_limit": "1"}
    assert all(before)
    async with at_work(keeper):
        await bus.execute("FLUSHALL")
        await until(renewed.is_set)
    assert await metas(bus) == before
    assert await bus.execute("GET", keyspace.VERSION_KEY) == keyspace.WIRE_VERSION.encode()
    assert sorted(told) == sorted(("settings.lost", queue) for queue in QUEUES)
    (line,) = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert "cm.in, cm, cm.out" in line


async def test_a_server_that_comes_back_empty_is_looked_at_at_once(server: ValkeyServer) -> None:
    again = asyncio.Event()
    bus = await Connector.connect(server.url, timeout_s=2.0, observe=on_reconnect(again))
    try:
        keeper = Keeper(bus, settings(), again=again, beat_s=3_600)
        await keeper.look()
        before = await metas(bus)
        await bus.execute("FLUSHALL")
        async with at_work(keeper):
            await until(lambda: _same(bus, before))  # its first look is over, and the next is an hour away
            server.kill()
            server.start()
            async with asyncio.timeout(20):
                while True:  # somebody uses the connection, and finds it lost and there again
                    try:
                        if await metas(bus) == before:
                            break
                    except Exception:
                        pass
                    await asyncio.sleep(0.05)
    finally:
        await bus.close()


async def test_an_operators_change_stands_over_beats_and_starts_until_the_settings_change(
    bus: Connector, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    running = Keeper(bus, settings())
    for _ in range(3):
        await running.look()
    await limits.set_rate(bus, "cm", 7, 1000)
    await running.look()
    await Keeper(bus, settings()).look()
    assert (await meta(bus, "cm"))["max"] == "7"
    assert len(caplog.records) == 1, "nothing changed, so nothing is said"
    await Keeper(bus, settings(guess_rate_max=300)).look()
    assert (await meta(bus, "cm"))["max"] == "300"
    assert "the limits of cm are set again" in caplog.records[-1].getMessage()
    await limits.set_rate(bus, "cm", 7, 1000)
    await Keeper(bus, settings(guess_rate_max=300)).look(reset=True)
    assert (await meta(bus, "cm"))["max"] == "300"


async def test_of_two_settings_those_of_the_process_that_began_last_hold_also_after_a_loss(bus: Connector) -> None:
    old, new = Keeper(bus, settings()), Keeper(bus, settings(guess_rate_max=300))
    await old.look()
    await asyncio.sleep(0.002)  # the server's clock counts milliseconds
    await new.look()
    for keeper in (old, new, old):
        await keeper.look()
        assert (await meta(bus, "cm"))["max"] == "300"
    await bus.execute("FLUSHALL")
    for keeper in (old, new, old, new):
        await keeper.look()
    assert (await meta(bus, "cm"))["max"] == "300"


async def test_limits_that_two_processes_set_at_the_same_moment_are_those_of_the_mark(bus: Connector) -> None:
    keeper = Keeper(bus, settings())
    await keeper.look()
    await limits.set_rate(bus, "cm", 7, 1000)  # of the other process, just before our mark
    await keeper.look()
    assert (await meta(bus, "cm"))["max"] == "500"


async def test_a_look_at_what_is_in_place_writes_nothing(bus: Connector) -> None:
    keeper = Keeper(bus, settings())
    for _ in range(2):
        await keeper.look()
    await bus.execute("CONFIG", "RESETSTAT")
    await keeper.look()
    stats = (await bus.execute("INFO", "commandstats")).decode()
    called = {line.split(":")[0].removeprefix("cmdstat_") for line in stats.splitlines() if line.startswith("cmdstat")}
    assert called - {"info", "config|resetstat"} == {"get", "hget"}


async def test_a_server_that_another_version_took_after_a_loss_ends_the_process(bus: Connector) -> None:
    keeper = Keeper(bus, settings(), beat_s=0.05)
    await keeper.look()
    await bus.execute("SET", keyspace.VERSION_KEY, "emq-99")
    with pytest.raises(VersionFence):
        await keeper.run()


def test_an_operator_sees_what_stands_and_takes_the_settings_again(
    server: ValkeyServer, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(logs, "configure", lambda **_: None)
    given = settings(valkey_url=server.url, guess_rate_max=300)

    async def by_hand() -> None:
        bus = await Connector.connect(server.url)
        await limits.set_rate(bus, "cm", 7, 1000)
        await bus.close()

    asyncio.run(by_hand())
    assert app.limits(given, reset=False) == 0
    assert "cm: duration=1000 limiter=window max=7  (no process has set it)" in capsys.readouterr().out
    assert app.limits(given, reset=True) == 0
    assert "cm: duration=1000 limiter=window max=300  (of these" in capsys.readouterr().out
    app.limits(settings(valkey_url=server.url), reset=False)
    assert "cm: duration=1000 limiter=window max=300  (of other settings)" in capsys.readouterr().out


@pytest.mark.parametrize("role", ["updates", "send"])
async def test_the_order_of_conversations_and_chats_is_brought_by_the_claim(role: str, bus: Connector) -> None:
    deferred_aiogram.load()
    from codemojex.roles import telegram

    store: Any = None
    play = Play(bus, Minter(1), SystemClock(), store)
    part: Any = telegram.part_of(role, settings(), Mock(), Mock(play=play), Mock(), watch=Observers())
    queue = play.options.inbox if role == "updates" else play.options.outbound
    room = ids.derive("CNV", "one")
    made = [NewJob(play.mint.mint("JOB"), b"?", lane=room) for _ in range(3)]
    await jobs.admit_many(bus, queue, made)
    claimed = await part._settler.settle_and_claim(16, 60_000)
    assert [job.id for job in claimed.jobs] == [made[0].id], "with no setting at all in the queue"
