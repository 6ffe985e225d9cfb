"""Every scenario of the conformance table holds on this server, and a scenario that breaks is reported."""

from __future__ import annotations

import pytest

from codemojex.engine.conformance.runner import Scenario, play
from codemojex.engine.conformance.table import SCENARIOS
from codemojex.engine.connector import Connector
from codemojex.engine.ids import Minter

from .bench import Bench


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
async def test_scenario(scenario: Scenario, valkey_url: str, queue: str) -> None:
    bus = await Connector.connect(valkey_url)
    try:
        result = await play(scenario, bus, valkey_url, queue, Minter(1000))
        assert not result.failure, f"{scenario.rule}\n{result.failure}"
        assert await Bench(bus, f"{queue}.{scenario.name}").keys() == {}, "its keys stay"
    finally:
        await bus.close()
