"""Puts what comes from outside on the bus: one job per update, one lane per conversation, each update once.

A repeated update is recognised by its key for a day and an hour, longer than Telegram repeats anything. What an
update means is not known here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from codemojex.engine import ids
from codemojex.engine.jobs import jobs
from codemojex.engine.jobs.jobs import Dedup, Duplicate, Enqueued, NewJob
from codemojex.play.context import Play

WINDOW_MS = 25 * 3_600_000


@dataclass(frozen=True, slots=True)
class Incoming:
    """One update on its way to the bus: its conversation's name (the lane), its dedup key, and its JSON."""

    conversation: str
    dedup: str
    payload: bytes


async def admit(play: Play, items: Sequence[Incoming], queue: str | None = None) -> bool:
    """Admit updates in order; True only when every single one is on the bus, now or since earlier."""
    new = [
        NewJob(
            play.mint.mint("JOB"),
            item.payload,
            lane=ids.derive("CNV", item.conversation),
            dedup=Dedup(item.dedup, WINDOW_MS),
        )
        for item in items
    ]
    verdicts = await jobs.admit_many(play.bus, queue or play.options.inbox, new)
    return all(isinstance(verdict, Enqueued | Duplicate) for verdict in verdicts)
