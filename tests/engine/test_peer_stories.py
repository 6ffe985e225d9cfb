"""Random stories beside a peer: no job is lost, none is ended twice, and either side works everything off.

Some are told in every run, always the same; CODEMOJEX_PEER_RUNS tells so many others (`make soak` does), from
CODEMOJEX_PEER_SEED on.
"""

from __future__ import annotations

import os
import secrets
from dataclasses import fields

import pytest

from tests.support.peer import Habits

from .bench import Bench
from .flow_bench import there
from .peer_story import STEPS, WEIGHTS, Story
from .peer_switches import OFF

STORIES = 24
PARTS = 4
LENGTH = 60
SOAK = int(os.environ.get("CODEMOJEX_PEER_RUNS", "0"))


async def tell(bench: Bench, seed: int) -> None:
    """One story, on two queues of its own."""
    home = Bench(bench.bus, f"{bench.queue}.{seed}")
    away = there(home, "far")
    await Story(home, away, seed).tell(LENGTH)
    for place in (home, away):  # the audit reads every key of the server: what is told leaves none behind
        await bench.bus.execute("UNLINK", place.space.key("wake"), *map(place.space.key, await place.keys()))


@pytest.mark.parametrize("part", range(PARTS))
async def test_two_engines_share_a_bus_and_every_job_has_one_end(bench: Bench, part: int) -> None:
    for seed in range(part, STORIES, PARTS):
        await tell(bench, seed)


@pytest.mark.skipif(not SOAK, reason="CODEMOJEX_PEER_RUNS says how many: make soak")
@pytest.mark.timeout(0)
async def test_long_run_of_stories_beside_a_peer(bench: Bench) -> None:
    first = int(os.environ.get("CODEMOJEX_PEER_SEED") or secrets.randbelow(1 << 30))
    for seed in range(first, first + SOAK):
        print(f"a story beside a peer: CODEMOJEX_PEER_RUNS=1 CODEMOJEX_PEER_SEED={seed}", flush=True)
        await tell(bench, seed)


def test_every_switch_names_a_habit_or_a_step() -> None:
    names = {field.name for field in fields(Habits)} | STEPS.keys() | {"parents_gauge"}
    assert OFF.keys() <= names
    assert WEIGHTS.keys() == STEPS.keys()
