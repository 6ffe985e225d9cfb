"""Shows how the queues stand, as a table for people.

One row a queue: what waits, what runs, what is due later, what is dead, and what has been done since the server's data
began. It reads counters only, however long the queues are, and changes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TextIO

from rich.console import Console
from rich.table import Table
from rich.text import Text


@dataclass(frozen=True, slots=True)
class QueueStatus:
    """The counters of one queue."""

    name: str
    purpose: str
    waiting: int
    running: int
    scheduled: int
    dead: int
    completed: int
    failed: int
    paused: bool = False


def show(queues: Sequence[QueueStatus], stream: TextIO, *, width: int | None = None) -> None:
    """Print the table to `stream`; colours only on a terminal."""
    table = Table(title="Queues", title_justify="left", header_style="bold")
    for heading in ("queue", "holds"):
        table.add_column(heading)
    for heading in ("waiting", "running", "due later", "dead", "done", "failed"):
        table.add_column(heading, justify="right")
    for queue in queues:
        name = Text(queue.name)
        if queue.paused:
            name.append(" (paused)", style="yellow")
        table.add_row(
            name,
            queue.purpose,
            *(f"{number:,}" for number in (queue.waiting, queue.running, queue.scheduled)),
            Text(f"{queue.dead:,}", style="red" if queue.dead else ""),
            *(f"{number:,}" for number in (queue.completed, queue.failed)),
        )
    Console(file=stream, width=width).print(table)
