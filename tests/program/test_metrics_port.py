"""A process with a port for metrics shows its queues and its own workers; one without has no such port."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from pydantic import SecretStr

from codemojex import app
from codemojex.engine import keyspace
from codemojex.engine.ids import Minter
from codemojex.engine.jobs import jobs
from codemojex.engine.transport.connector import Connector
from codemojex.ops import exporter
from codemojex.ops.exporter import Exporter
from codemojex.settings import Settings
from codemojex.store.migrate import migrate
from tests.support.topologies import free_port
from tests.support.valkey import ValkeyServer
from tests.support.waiting import until


async def test_a_process_serves_the_numbers_of_every_queue_and_of_its_own_workers(
    start_valkey: Callable[..., ValkeyServer], tmp_path: Path
) -> None:
    server, port, stop = start_valkey(), free_port(), asyncio.Event()
    settings = _settings(server, tmp_path, metrics_port=port, dead_keep_s=0)
    await migrate(settings.database_url.get_secret_value())  # type: ignore[union-attr]
    bus = await Connector.connect(server.url)
    old = Minter(4).mint("JOB")
    await bus.execute("ZADD", keyspace.of("cm.out").key("dead"), 0, old)
    await bus.execute("HSET", keyspace.of("cm.out").row(old), "state", "dead", "attempts", "1", "payload", "x")
    await jobs.enqueue(bus, "cm", Minter(5).mint("JOB"), b"no guess")
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(app._run(settings, ["score", "clock"], stop))

        async def shown() -> bool:
            text = await _scrape(port)
            return all(
                line in text
                for line in (
                    'emq_worker_claimed_total{queue="cm"} 1.0',
                    'emq_handler_seconds_count{queue="cm"} 1.0',
                    'emq_worker_settled_total{queue="cm",result="dead"} 1.0',
                    'emq_jobs{queue="cm.in",state="pending"} 0.0',
                    'emq_jobs{queue="cm.out",state="dead"} 0.0',
                    'emq_worker_events_total{event="retention.dead_trimmed",queue="cm.out"} 1.0',
                    'emq_worker_events_total{event="connector.connection",queue=""}',
                    "emq_round_trip_seconds_count",
                )
            )

        await until(shown, "the numbers are shown", 30)
        stop.set()
    await bus.close()
    with pytest.raises(aiohttp.ClientConnectorError):
        async with aiohttp.ClientSession() as client, client.get(f"http://127.0.0.1:{port}/metrics"):
            pass


async def test_a_port_that_is_taken_ends_the_start_with_a_remedy(
    start_valkey: Callable[..., ValkeyServer], tmp_path: Path
) -> None:
    taken, server = Exporter("127.0.0.1", 0), start_valkey()
    for place in ({"metrics_port": taken.port}, {"metrics_port": 0, "metrics_host": "a..b"}):
        with pytest.raises(app.UserError, match=r"metrics.*CODEMOJEX_METRICS_PORT"):
            await app._run(_settings(server, tmp_path, **place), ["clock"], asyncio.Event())
    await taken.close()


async def test_without_the_setting_there_is_no_port(
    start_valkey: Callable[..., ValkeyServer], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert Settings.model_fields["metrics_host"].default == "127.0.0.1"
    settings, stop, opened = _settings(start_valkey(), tmp_path), asyncio.Event(), list[object]()
    monkeypatch.setattr(exporter, "Exporter", lambda *place: opened.append(place))
    await migrate(settings.database_url.get_secret_value())  # type: ignore[union-attr]
    stop.set()
    await app._run(settings, ["clock"], stop)
    assert opened == []


def _settings(server: ValkeyServer, directory: Path, **more: Any) -> Settings:
    return Settings(
        valkey_url=SecretStr(server.url),
        database_url=SecretStr(f"sqlite+aiosqlite:///{directory / 'store.db'}"),
        data_dir=directory,
        **more,
    )


async def _scrape(port: int) -> str:
    try:
        async with aiohttp.ClientSession() as client, client.get(f"http://127.0.0.1:{port}/metrics") as answer:
            return await answer.text()
    except aiohttp.ClientConnectorError:  # not open yet
        return ""
