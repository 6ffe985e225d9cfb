"""Jobs whose workers vanished come back here.

A lease that lapsed is found in `active`; its job waits again in its lane, counted as one lapse. The job that lapses
`max_stalled` times kills its workers and becomes a dead letter. This is the only transition for lapsed leases; it
does not charge failures and does not change the token, so a late holder may still finish until the next claim. The
same holds when another engine took the job back.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from codemojex.engine import ids, keyspace, validation
from codemojex.engine.scripts import ENGINE
from codemojex.engine.transport.connector import Connector

MAX_STALLED = 3
LIMIT = 100


@dataclass(frozen=True, slots=True)
class Recovered:
    """Ids that wait again, and ids that became dead letters."""

    waiting: Sequence[str]
    dead: Sequence[str]


async def recover(
    bus: Connector, queue: str, *, limit: int = LIMIT, max_stalled: int = MAX_STALLED, lane: str | None = None
) -> Recovered:
    """Take back up to `limit` jobs whose leases lapsed.

    With `lane` only that lane's jobs among the first `limit` lapsed ones; call again while the answer is full.
    """
    validation.integer("limit", limit, 1, 500)
    validation.integer("max_stalled", max_stalled, 1, validation.MAX_ATTEMPTS)
    only = "" if lane is None else ids.require(lane)
    prefix = keyspace.of(queue).prefix
    waiting, dead = await bus.run(ENGINE.script("recover"), (prefix,), (limit, max_stalled, only))
    return Recovered([i.decode() for i in waiting], [i.decode() for i in dead])
