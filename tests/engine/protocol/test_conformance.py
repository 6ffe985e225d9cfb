"""Every scenario of the conformance table holds on this server, and a scenario that breaks is reported."""

from __future__ import annotations

import asyncio

import pytest

from codemojex.engine.errors import InvalidValue
from codemojex.engine.ids import Minter
from codemojex.engine.protocol.conformance import runner
from codemojex.engine.protocol.conformance.fixture import ScenarioFixture, equal
from codemojex.engine.protocol.conformance.neighbours import named
from codemojex.engine.protocol.conformance.runner import Scenario, choose, play, run
from codemojex.engine.protocol.conformance.table import SCENARIOS
from codemojex.engine.transport.connector import Connector
from tests.engine.bench import Bench


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
async def test_scenario(scenario: Scenario, valkey_url: str, queue: str) -> None:
    bus = await Connector.connect(named(valkey_url, queue))
    try:
        result = await play(scenario, bus, valkey_url, queue, Minter(1000), flush=True)
        assert not result.failure, f"{scenario.rule}\n{result.failure}"
        assert not result.skipped, f"{scenario.rule}\n{result.skipped}"
        assert await Bench(bus, f"{queue}.{scenario.name}").keys() == {}, "its keys stay"
    finally:
        await bus.close()


def test_the_protocols_scenarios_stand_in_its_order_and_ours_behind_them() -> None:
    names = [scenario.name for scenario in SCENARIOS]
    assert len(set(names)) == len(names)
    assert names[:3] == ["fence", "mint", "duplicate"]
    assert names[78] == "stream_time_travel"
    assert all(name.startswith("ours.") == (number >= 79) for number, name in enumerate(names))
    assert all(scenario.rule for scenario in SCENARIOS)


async def _good(stage: ScenarioFixture) -> None:
    """Holds."""
    await stage.fill(None)


async def _bad(stage: ScenarioFixture) -> None:
    """Does not hold."""
    await stage.fill(None, stage.lane(1))
    equal(1, 2, "a number")


async def _odd(stage: ScenarioFixture) -> None:
    """Leaves a key of a kind that nobody knows."""
    await stage.raw("SET", "invented", "x")


async def test_a_broken_scenario_is_reported_the_next_one_runs_and_no_key_stays(bench: Bench, valkey_url: str) -> None:
    table = [Scenario("bad", _bad), Scenario("odd", _odd), Scenario("good", _good)]
    results = [result async for result in run(valkey_url, table, base=bench.queue)]
    assert [(result.name, result.failure) for result in results] == [
        ("bad", "a number: found 1 in place of 2"),
        ("odd", "at its end: no family of keys has 'invented', a string"),
        ("good", ""),
    ]
    for name in ("bad", "odd", "good"):
        assert await Bench(bench.bus, f"{bench.queue}.{name}").keys() == {}


async def test_a_run_touches_no_key_of_others(bench: Bench, valkey_url: str) -> None:
    await bench.fill([None, None])
    before = await bench.keys()
    neighbour = Bench(bench.bus, f"{bench.queue}.good.neighbour")
    await neighbour.fill([None])
    results = [result async for result in run(valkey_url, [Scenario("good", _good)], base=bench.queue)]
    assert [(result.name, result.failure) for result in results] == [("good", "")]
    assert await bench.keys() == before
    assert await neighbour.keys() != {}


async def test_a_scenario_that_hangs_is_reported(
    bench: Bench, valkey_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def hang(stage: ScenarioFixture) -> None:
        await asyncio.sleep(60)

    monkeypatch.setattr(runner, "TIMEOUT_S", 0.05)
    result = await play(Scenario("hang", hang), bench.bus, valkey_url, bench.queue, Minter(1000))
    assert result.failure == "no end within 0.05 s"


def test_scenarios_are_chosen_by_name_or_by_their_beginning() -> None:
    assert [s.name for s in choose(SCENARIOS, "retry, claim")] == ["claim", "retry"]
    flows = [s.name for s in choose(SCENARIOS, "flow_*")]
    assert (len(flows), flows[0], flows[-1]) == (9, "flow_add", "flow_grandchild_fail")
    with pytest.raises(InvalidValue, match="nonsense"):
        choose(SCENARIOS, "claim,nonsense")
