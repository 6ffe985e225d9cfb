"""The stories of `make soak`: CODEMOJEX_MODEL_RUNS for each machine of the model, from CODEMOJEX_MODEL_SEED on."""

from __future__ import annotations

import os
import secrets

import pytest

from tests.engine.model.telling import tell
from tests.engine.model.test_model import PARTS, STEPS

SOAK = int(os.environ.get("CODEMOJEX_MODEL_RUNS", "100"))
SEED = os.environ.get("CODEMOJEX_MODEL_SEED")
SOAK_PART = 100


@pytest.mark.parametrize("machine", PARTS)
@pytest.mark.timeout(0)
def test_random_stories(valkey_url: str, machine: str) -> None:
    first = int(SEED or secrets.randbelow(1 << 30))
    for start in range(0, SOAK, SOAK_PART):
        seed, stories = first + start, min(SOAK_PART, SOAK - start)
        again = f"make soak SOAK_RUNS={stories} SOAK_SEED={seed} ARGS='-k {machine}'"
        print(f"{machine}: {start} of {SOAK} stories told; the next {stories}: {again}", flush=True)
        tell(valkey_url, stories, STEPS, seed, machine, shrink=True)
