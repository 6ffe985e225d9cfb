"""Shows how the queues stand, as a table for people.

One row a queue: what waits and since when, what runs, what is due later, what is dead, and what has been done since the
server's data began. It reads counters only, however long the queues are, and changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TextIO

from rich.console import Console
from rich.table import Table
from rich.text import Text

from codemojex.engine.inspection.metrics import Counts, counts
from codemojex.engine.transport.connector import Connector
from codemojex.play.archive import backlog
from codemojex.play.archive.backlog import Backlog

_UNCUT = 300  # columns; the table takes what it needs of them


@dataclass(frozen=True, slots=True)
class QueueStatus:
    """One queue at one instant."""

    name: str
    purpose: str
    counts: Counts


async def read(bus: Connector, queues: Mapping[str, str]) -> list[QueueStatus]:
    """The status of every queue of `queues`, which maps a name to what the queue holds."""
    return [QueueStatus(name, purpose, await counts(bus, name)) for name, purpose in queues.items()]


def show(
    queues: Sequence[QueueStatus], stream: TextIO, *, width: int | None = None, unarchived: Backlog | None = None
) -> None:
    """Print the table to `stream`, and below it the finished games that wait for the archive.

    Colours only on a terminal, and nothing cut where there is none.
    """
    table = Table(title="Queues", title_justify="left", header_style="bold")
    for heading in ("queue", "holds"):
        table.add_column(heading)
    for heading in ("waiting", "oldest", "lanes", "running", "due later", "dead", "done", "failed", "blocked"):
        table.add_column(heading, justify="right")
    for queue in queues:
        now = queue.counts
        name = Text(queue.name)
        if now.paused:
            name.append(" (paused)", style="yellow")
        table.add_row(
            name,
            queue.purpose,
            f"{now.pending:,}",
            _age(now.oldest_age_ms),
            f"{now.lanes:,}{'+' if now.lanes_truncated else ''}",
            *(f"{number:,}" for number in (now.active, now.scheduled)),
            Text(f"{now.dead:,}", style="red" if now.dead else ""),
            *(f"{number:,}" for number in (now.completed, now.failed)),
            Text(f"{now.blocked:,}", style="yellow" if now.blocked else ""),
        )
    console = Console(file=stream, width=width or (None if stream.isatty() else _UNCUT))
    console.print(table)
    if unarchived is not None:
        late = unarchived.full or unarchived.oldest_ms > backlog.LATE_MS
        console.print(Text(f"Archive: {backlog.sentence(unarchived)}", style="red" if late else ""))


def _age(age_ms: int | None) -> str:
    """An age as people read it: `350 ms`, `12 s`, `3 min`, `5 h`."""
    if age_ms is None:
        return "–"
    for unit, length_ms in (("h", 3_600_000), ("min", 60_000), ("s", 1000)):
        if age_ms >= length_ms:
            return f"{age_ms // length_ms} {unit}"
    return f"{age_ms} ms"
