"""The port for Prometheus answers with every documented number, keeps answering, and is closed at the end."""

from __future__ import annotations

import asyncio
import re
import socket

import aiohttp
import pytest

from codemojex.engine.flows import flows
from codemojex.engine.flows.flows import Flow
from codemojex.engine.ids import Minter
from codemojex.engine.jobs.jobs import NewJob
from codemojex.engine.testing import FaultyConnector
from codemojex.engine.transport.connector import Connector
from codemojex.ops.exporter import Exporter
from tests.architecture.sources import ROOT
from tests.support.waiting import until

HERE = "127.0.0.1"


async def scrape(port: int) -> str:
    async with aiohttp.ClientSession() as client, client.get(f"http://{HERE}:{port}/metrics") as answer:
        assert answer.status == 200
        assert answer.content_type == "text/plain"
        return await answer.text()


async def test_a_scrape_has_every_documented_name(bus: Connector, queue: str) -> None:
    mint = Minter(6)
    flow = Flow(NewJob(mint.mint("JOB"), b""), [Flow(NewJob(mint.mint("JOB"), b""), queue=f"{queue}.far")])
    await flows.add(bus, queue, flow)
    exporter = Exporter(HERE, 0)
    exporter.look_at(bus, [queue, f"{queue}.far"])
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(exporter.run())

        async def seen() -> bool:
            return f'emq_jobs{{queue="{queue}.far",state="pending"}} 1.0' in await scrape(exporter.port)

        await until(seen, "the queues are shown")
        exporter.stop()
    text = await scrape(exporter.port)
    await exporter.close()
    assert f'emq_waiting_parents{{queue="{queue}"}} 1.0' in text
    assert f'emq_outbox_entries{{queue="{queue}.far"}} 0.0' in text
    page = (ROOT / "docs/reference/metrics.md").read_text(encoding="utf-8")
    documented = set(re.findall(r"^\| `(emq_[a-z_]+)` \|", page, re.MULTILINE))
    served = set(re.findall(r"^# TYPE (emq_[a-z_]+) ", text, re.MULTILINE))
    assert documented == served, "and no `…_created` beside them"


async def test_a_server_that_is_away_leaves_the_port_open_and_comes_back(bus: Connector, queue: str) -> None:
    faulty = FaultyConnector(bus, seed=1, refuse=1.0, lose=0.0)
    exporter = Exporter(HERE, 0, beat_s=0.01)
    exporter.look_at(faulty, [queue])
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(exporter.run())
        await until(lambda: faulty.refused > 2, "it goes on looking")
        assert f'queue="{queue}"' not in await scrape(exporter.port)
        faulty.refuse = 0.0

        async def seen() -> bool:
            return f'queue="{queue}"' in await scrape(exporter.port)

        await until(seen, "the queue is shown")
        exporter.stop()
    await exporter.close()


async def test_a_port_that_is_taken_is_an_error_and_a_closed_one_is_free(bus: Connector) -> None:
    exporter = Exporter(HERE, 0)
    with pytest.raises(OSError, match="in use"):
        Exporter(HERE, exporter.port)
    await exporter.close()
    with socket.socket() as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        taken.bind((HERE, exporter.port))
