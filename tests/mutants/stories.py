"""Stories of the model that every mutant meets: few, and always the same. Not collected by a run of all tests."""

from __future__ import annotations

import pytest

from tests.engine.model.telling import MACHINES, tell

STORIES, STEPS, SEED = 8, 60, 1


@pytest.mark.timeout(60)
@pytest.mark.parametrize("machine", MACHINES)
def test_the_server_holds_what_the_model_says(valkey_url: str, machine: str) -> None:
    tell(valkey_url, STORIES, STEPS, SEED, machine)
