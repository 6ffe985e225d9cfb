"""Looks, a few at a time, at lists of ours that a peer does not keep, and puts right what it left behind.

A peer ends parents without taking them off our list of those that wait, deletes a parent's row and leaves its records,
and does not fire what only we can read. Each beat of a pump looks at a page of one list. No page costs more than
`_PAGE` members of a long list, or 128 of a short one.
"""

from __future__ import annotations

from codemojex.engine import keyspace
from codemojex.engine.scripts import ENGINE
from codemojex.engine.transport.connector import Arg, Connector

LISTS = ("parents", "kin", "repeat")
LEFTOVER_MS = 3_600_000  # for whoever still reads what the children of a finished parent said
_PAGE = 50


class Visits:
    """Where one pump stands in the lists of `queue`."""

    def __init__(self, bus: Connector, queue: str) -> None:
        self._bus = bus
        self._prefix = keyspace.of(queue).prefix
        self._cursors: dict[str, Arg] = dict.fromkeys(LISTS, b"0")
        self._turn = 0

    async def next(self) -> tuple[str, int]:
        """Look at the next page; its list, and how many members were put right."""
        name = LISTS[self._turn % len(LISTS)]
        self._turn += 1
        args: list[Arg] = [name, self._cursors[name], _PAGE, LEFTOVER_MS]
        self._cursors[name], done = await self._bus.run(ENGINE.script("peer_visit"), (self._prefix,), args)
        return name, done
