"""Node numbers that nobody leases, because another engine mints with them.

A reservation holds for every process that leases, of any language: it stands next to the table of leases. It does not
take a number from its holder at once. At the next renewal, a third of the lease later, the holder gets another one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from codemojex.engine import validation
from codemojex.engine.ids import node_numbers
from codemojex.engine.keyspace import NODES_KEY
from codemojex.engine.transport.connector import Arg, Connector

_LONGEST_NOTE = 200


@dataclass(frozen=True, slots=True)
class Holder:
    """A number that a process has, or had: its lease ends in `ends_in_ms`, which is negative while it rests."""

    node: int
    ends_in_ms: int


async def reserve(bus: Connector, numbers: range, note: str = "", *, key: str = NODES_KEY) -> Sequence[Holder]:
    """Reserve the numbers; those of them that a process still holds. Again: the note is replaced."""
    node_numbers(numbers)
    validation.text("note", note, 0, _LONGEST_NOTE)
    pairs: list[Arg] = [part for node in numbers for part in (node, note)]
    await bus.execute("HSET", _reserved(key), *pairs)
    return [holder for holder in await leased(bus, key=key) if holder.node in numbers and holder.ends_in_ms > 0]


async def release(bus: Connector, numbers: range, *, key: str = NODES_KEY) -> int:
    """Let the numbers be leased again; how many were reserved."""
    return await bus.execute("HDEL", _reserved(key), *node_numbers(numbers))


async def reserved(bus: Connector, *, key: str = NODES_KEY) -> Mapping[int, str]:
    """Every reserved number with its note, in order."""
    found = await bus.execute("HGETALL", _reserved(key))
    return dict(sorted((int(node), note.decode(errors="replace")) for node, note in found.items()))


async def leased(bus: Connector, *, key: str = NODES_KEY) -> Sequence[Holder]:
    """Every number that stands in the table of leases, in order."""
    (seconds, micros), found = await bus.at(key, "TIME"), await bus.execute("HGETALL", key)
    now_ms = int(seconds) * 1000 + int(micros) // 1000
    ends = sorted((int(node), int(lease.partition(b":")[0])) for node, lease in found.items())
    return [Holder(node, end_ms - now_ms) for node, end_ms in ends]


def _reserved(key: str) -> str:
    return f"{validation.text('key', key, 1)}:reserved"
