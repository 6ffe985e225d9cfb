"""An outage is a line when it begins, one a minute, and one when it is over, however many loops notice it."""

from __future__ import annotations

import asyncio
import io
import json
import logging
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import structlog

from codemojex import logs
from codemojex.engine.clock import SystemClock
from codemojex.engine.nodes.node_lease import NodeLease
from codemojex.engine.transport.connector import Connector
from codemojex.outages import EVERY_S, QUIET_S, Outages
from codemojex.play.context import Play
from codemojex.roles.internal import Observers, Part, observe, options_of, parts_of
from codemojex.roles.limits_keeper import Keeper
from codemojex.settings import load_settings
from codemojex.store.engine import close, open_store
from codemojex.store.migrate import migrate
from tests.support.valkey import ValkeyServer
from tests.support.waiting import until

log = logging.getLogger("codemojex.test")


class Time:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def stream() -> Iterator[io.StringIO]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield io.StringIO()
    root.handlers[:] = handlers
    root.setLevel(level)
    structlog.reset_defaults()


def told(stream: io.StringIO) -> list[str]:
    return [json.loads(line)["event"] for line in stream.getvalue().splitlines()]


def fault(text: str, outage: str | None = "Valkey", again_s: float = 0) -> None:
    log.warning(text, extra={"outage": outage, "again_s": again_s})


def test_the_faults_of_an_outage_are_one_line_then_one_a_minute_then_the_count(stream: io.StringIO) -> None:
    time = Time()
    outages = Outages(time)
    logs.configure(stream=stream, form="json", filters=[outages])
    for i in range(int(EVERY_S) + 10):
        fault(f"no answer {i}")
        time.now += 1
        outages.tick()
    assert json.loads(stream.getvalue().splitlines()[0])["outage"] == "Valkey"
    assert told(stream) == ["no answer 0", "Valkey is still away, 61 faults in 60 s; the last: no answer 60"]
    time.now += QUIET_S
    outages.tick()
    assert told(stream)[2:] == ["Valkey is there again: 70 faults in 69 s"]
    fault("once more")
    assert told(stream)[3:] == ["once more"]


def test_a_loop_that_tries_again_later_keeps_its_outage_open(stream: io.StringIO) -> None:
    time = Time()
    outages = Outages(time)
    logs.configure(stream=stream, form="json", filters=[outages])
    for _ in range(2):
        fault("pauses", "the database", again_s=40)
        time.now += 40
        outages.tick()
    assert told(stream) == ["pauses"]


def test_outages_of_different_things_and_records_of_none_do_not_hide_each_other(stream: io.StringIO) -> None:
    outages = Outages(Time())
    logs.configure(stream=stream, form="json", filters=[outages])
    for _ in range(3):
        fault("a", "Valkey")
        fault("b", "Telegram")
        fault("c", None)
    assert sorted(told(stream)) == ["a", "b", "c", "c", "c"]
    outages.end()
    assert [line for line in told(stream) if "until the end" in line] == [
        "Valkey was away until the end: 3 faults in 0 s",
        "Telegram was away until the end: 3 faults in 0 s",
    ]


@asynccontextmanager
async def everything_at_work(url: str, directory: Path) -> AsyncGenerator[None]:
    """The loops of a process that do not talk to Telegram, on the server at `url`."""
    database = f"sqlite+aiosqlite:///{directory / 'store.db'}"
    await migrate(database)
    settings = load_settings(env_file=None, lease_ms=1_000)
    bus = await Connector.connect(url, timeout_s=1.0, observe=observe)
    store = await open_store(database)
    try:
        async with NodeLease(bus, lease_ms=1_000, observe=observe) as lease:
            play = Play(bus, lease.minter, SystemClock(), store, options=options_of(settings))
            keeper = Keeper(bus, settings, observe=observe, beat_s=0.2)
            await keeper.look()
            parts: list[Part] = [keeper]
            for role in ("score", "feed", "clock", "archive"):
                parts += parts_of(role, settings, play, "me", Observers())
            async with asyncio.TaskGroup() as tasks:
                work = [tasks.create_task(part.run()) for part in parts]
                try:
                    yield
                finally:
                    for part in parts:
                        part.stop()
                    await asyncio.wait(work, timeout=15)
                    for task in work:
                        task.cancel()
    finally:
        await close(store)
        await bus.close()


async def test_all_loops_of_a_process_tell_of_a_lost_server_in_one_line(
    start_valkey: Callable[..., ValkeyServer], tmp_path: Path, stream: io.StringIO
) -> None:
    counted: list[Any] = []

    class Counting(Outages):
        def filter(self, record: logging.LogRecord) -> bool:
            if record.__dict__.get("outage"):
                counted.append(record.getMessage())
            return super().filter(record)

    outages = Counting(quiet_s=4.0)
    logs.configure(stream=stream, form="json", filters=[outages])
    server = start_valkey()
    async with everything_at_work(server.url, tmp_path):
        server.kill()
        await until(lambda: {"worker.fault", "pump.fault", "group.fault", "settings.fault", "node.fault"} <= {*counted})
        await until(lambda: len(counted) > 20)
        lines = [json.loads(line) for line in stream.getvalue().splitlines()]
        assert len([line for line in lines if line["level"] == "warning"]) == 1, lines
        server.start()
        watch = asyncio.get_running_loop().create_task(outages.watch())
        await until(lambda: "Valkey is there again" in stream.getvalue(), deadline_s=30.0)
        watch.cancel()
    loud = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert [line["event"] for line in loud if line["level"] == "error"] == [
        line["event"] for line in loud if "lost the limits" in line["event"]
    ]
