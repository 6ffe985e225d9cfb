"""Jobs and lanes whose time has come are brought back here.

`claim_many` brings back what is due by itself; this verb is for pumps that keep time while every worker is busy, and
for the narrower claims that do not.
"""

from __future__ import annotations

from dataclasses import dataclass

from codemojex.engine import keyspace, validation
from codemojex.engine.scripts import ENGINE
from codemojex.engine.transport.connector import Connector

LIMIT = 100


@dataclass(frozen=True, slots=True)
class Promoted:
    """How many scheduled jobs became pending, and in how many ms the next is due (None: nothing waits for a time)."""

    jobs: int
    next_due_ms: int | None


async def promote(bus: Connector, queue: str, limit: int = LIMIT) -> Promoted:
    """Make up to `limit` due jobs pending, each in its lane, and let due lanes stand in the ring again."""
    validation.integer("limit", limit, 1, 500)
    jobs, due = await bus.run(ENGINE.script("promote"), (keyspace.of(queue).prefix,), (limit,))
    return Promoted(jobs, due if due >= 0 else None)
