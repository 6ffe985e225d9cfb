"""Shows, reserves and releases node numbers, for the command `codemojex nodes`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TextIO

from codemojex.engine.ids import LEASED_NODES, node_numbers
from codemojex.engine.nodes import reservations
from codemojex.engine.transport.connector import Connector


async def listing(bus: Connector, leased: range, out: TextIO) -> None:
    """What this program leases from, what is reserved, and what processes hold."""
    print(f"this program leases {leased[0]}-{leased[-1]}", file=out)
    notes = await reservations.reserved(bus)
    for note in dict.fromkeys(notes.values()):
        numbers = _runs(node for node, its in notes.items() if its == note)
        print(f"reserved {numbers}" + (f": {note}" if note else ""), file=out)
    holders = await reservations.leased(bus)
    held = _runs(holder.node for holder in holders if holder.ends_in_ms > 0)
    print(f"leased now: {held or 'none'}", file=out)


async def reserve(bus: Connector, numbers: range, note: str, out: TextIO) -> None:
    """Reserve, and say who still mints with one of the numbers."""
    held = await reservations.reserve(bus, numbers, note)
    print(f"reserved {_runs(numbers)}", file=out)
    if held:
        last_s = max(holder.ends_in_ms for holder in held) / 1000
        print(
            f"{_runs(holder.node for holder in held)} is still in use: its holder leaves it at its next renewal, "
            f"within {last_s:.0f} s; start no other engine with it before that",
            file=out,
        )


async def release(bus: Connector, numbers: range, out: TextIO) -> None:
    """Release, and say how many were reserved."""
    count = await reservations.release(bus, numbers)
    print(f"released {count} of {_runs(numbers)}", file=out)


def leased_by(setting: str | None) -> range:
    """The numbers that the setting names, or the default."""
    return LEASED_NODES if setting is None else node_numbers(setting)


def _runs(numbers: Iterable[int]) -> str:
    """`1-3, 68`: numbers in order, runs in short."""
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ", ".join(str(low) if low == high else f"{low}-{high}" for low, high in runs)
