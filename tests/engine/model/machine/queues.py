"""The machine of queues: every verb of jobs, lanes, limits, flows, repeats, marks and notes, in any order."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from tests.engine.model.machine.ending import Ending
from tests.engine.model.machine.looking import Looking
from tests.engine.model.machine.ruling import Ruling


class Queues(Looking, Ending, Ruling):
    """Two queues of one server, and three clients."""

    # Most of a queue's life is work; what an operator does, and what looks on, comes in between.
    often: ClassVar[Mapping[str, int]] = {
        **{"admit": 3, "fill": 2, "add_flow": 4},
        **{"claim_what_is_there": 6, "settle": 7, "deliver": 4, "go_on": 2},
        **{"slots_come": 2, "fire": 2, "jobs_come_due": 2, "lanes_have_rested": 2, "the_budget_returns": 2},
    }
