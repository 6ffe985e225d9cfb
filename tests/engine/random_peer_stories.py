"""The stories beside a peer of `make soak`: CODEMOJEX_MODEL_RUNS of them, from CODEMOJEX_MODEL_SEED on."""

from __future__ import annotations

import secrets

import pytest

from tests.engine.bench import Bench
from tests.engine.peer.telling import tell
from tests.engine.random_stories import SEED, SOAK, SOAK_PART


@pytest.mark.timeout(0)
async def test_random_peer_stories(bench: Bench) -> None:
    first = int(SEED or secrets.randbelow(1 << 30))
    for seed in range(first, first + SOAK):
        if (seed - first) % SOAK_PART == 0:
            print(f"peer: {seed - first} of {SOAK} stories told", flush=True)
        try:
            await tell(bench, seed)
        except AssertionError:
            print(f"again: make soak SOAK_RUNS=1 SOAK_SEED={seed} ARGS='-k peer'", flush=True)
            raise
