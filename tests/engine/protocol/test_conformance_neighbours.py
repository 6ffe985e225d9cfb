"""Conformance on a server that others use: nothing is judged by their commands, and their scripts stay."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest

from codemojex.engine.ids import Minter
from codemojex.engine.jobs import jobs
from codemojex.engine.protocol.conformance.fixture import ScenarioFixture, that
from codemojex.engine.protocol.conformance.runner import Scenario, ScenarioResult, run
from codemojex.engine.protocol.conformance.table import SCENARIOS
from codemojex.engine.scripts import ENGINE
from codemojex.engine.transport.connector import Connector
from codemojex.engine.worker.worker import Worker, WorkerOptions
from tests.support.valkey import ValkeyServer

DELICATE = [scenario for scenario in SCENARIOS if scenario.quiet or scenario.flushes]
COUNTED = [s for s in DELICATE if s.name != "ours.budget"]  # which measures time, and this machine may be busy


@pytest.fixture
async def address(start_valkey: Callable[..., ValkeyServer]) -> str:
    return start_valkey().url


@pytest.fixture
async def load(address: str) -> AsyncIterator[Connector]:
    """Somebody admits and works all the time."""
    bus, mint = await Connector.connect(address), Minter(5)

    async def handle(job: jobs.Job) -> None:
        pass

    async def admit() -> None:
        while True:
            await jobs.enqueue_many(bus, "theirs", [(mint.mint("JOB"), b"x") for _ in range(5)])
            await asyncio.sleep(0.01)

    worker = Worker(bus, "theirs", handle, options=WorkerOptions(grace_ms=100))
    admitting, working = asyncio.create_task(admit()), asyncio.create_task(worker.run())
    yield bus
    admitting.cancel()
    worker.stop()
    await asyncio.wait([working], timeout=20)
    await bus.close()


async def results(address: str, scenarios: list[Scenario], *, flush: bool = False) -> dict[str, ScenarioResult]:
    return {result.name: result async for result in run(address, scenarios, flush=flush)}


async def test_a_load_on_the_same_server_makes_no_scenario_fail(address: str, load: Connector) -> None:
    found = await results(address, DELICATE)
    assert {name: result.failure for name, result in found.items() if result.failure} == {}
    assert {"stale", "ours.script_flush"} <= {name for name, result in found.items() if result.skipped}
    assert "other clients" in found["stale"].skipped
    known = await load.execute("SCRIPT", "EXISTS", ENGINE.script("claim_many").sha)
    assert known == [1], "nobody lost a script"


async def test_next_to_a_client_that_rests_only_flushing_is_left_out(address: str) -> None:
    idle = await Connector.connect(address)
    try:
        found = await results(address, COUNTED)
        assert {name for name, result in found.items() if result.skipped} == {"stale", "ours.script_flush"}
        assert [result for result in found.values() if result.failure] == []
        flushed = await results(address, [s for s in DELICATE if s.flushes], flush=True)
        assert not any(result.skipped or result.failure for result in flushed.values())
    finally:
        await idle.close()


async def test_alone_on_a_server_nothing_is_skipped(address: str) -> None:
    found = await results(address, COUNTED)
    assert [result for result in found.values() if result.skipped or result.failure] == []


async def _counts(stage: ScenarioFixture) -> None:
    """Fails whatever happens, and a neighbour of the scenario works meanwhile."""
    await asyncio.sleep(0.1)
    that(False, "too many commands")


async def test_a_failure_stands_when_nobody_else_worked_and_when_the_scenario_does_not_count(
    address: str, load: Connector
) -> None:
    table = [Scenario("counts", _counts, quiet=True), Scenario("does_not", _counts)]
    found = await results(address, table)
    assert (found["counts"].failure, found["does_not"].failure) == ("", "too many commands")
    assert "other clients worked" in found["counts"].skipped


async def test_a_failure_on_a_quiet_server_stands(address: str) -> None:
    assert (await results(address, [Scenario("counts", _counts, quiet=True)]))["counts"].failure == "too many commands"
