"""The machine of queues: every verb of jobs, lanes, limits, flows, repeats, marks and notes, in any order."""

from __future__ import annotations

from .ending import Ending
from .looking import Looking
from .ruling import Ruling


class Queues(Looking, Ending, Ruling):
    """Two queues of one server, and three clients."""

    always = frozenset(
        (
            *("admit", "fill", "add_flow", "claim_what_is_there", "settle"),
            *("deliver", "go_on", "slots_come", "fire", "jobs_come_due", "lanes_have_rested"),
        )
    )
