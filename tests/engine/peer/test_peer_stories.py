"""Random stories beside a peer: no job is lost, none is ended twice, and either side works everything off.

These are told in every run, always the same; `make soak` tells others, by `random_peer_stories`.
"""

from __future__ import annotations

from dataclasses import fields

import pytest

from tests.engine.bench import Bench
from tests.engine.peer.story import STEPS, WEIGHTS
from tests.engine.peer.switches import OFF
from tests.engine.peer.telling import tell
from tests.support.peer import Habits

STORIES, PARTS = 32, 4


@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.timeout(400)
async def test_two_engines_share_a_bus_and_every_job_has_one_end(bench: Bench, part: int) -> None:
    for seed in range(part, STORIES, PARTS):
        await tell(bench, seed)


def test_every_switch_names_a_habit_or_a_step() -> None:
    names = {field.name for field in fields(Habits)} | STEPS.keys() | {"parents_gauge"}
    assert OFF.keys() <= names
    assert WEIGHTS.keys() == STEPS.keys()
