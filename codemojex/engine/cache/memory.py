"""What one process knows of a cache table: values that are known to be coherent, and loads that are under way.

A change that is heard of makes older values void, here and in what is being loaded: a load that was overtaken is
served to those who had asked, and kept nowhere.
"""

from __future__ import annotations

import asyncio
import math
import random
import time
from dataclasses import dataclass
from typing import Generic, TypeVar

from codemojex.engine.cache.options import CacheOptions, Read, Stats
from codemojex.engine.cache.segmented_lru import Entry, SegmentedLru

T = TypeVar("T")


@dataclass(slots=True)
class Flight(Generic[T]):
    """A load under way, and how new a change was heard of meanwhile."""

    result: asyncio.Future[Read[T]]
    heard: float = -1


class Memory(Generic[T]):
    """The first layer of a table, and its flights by entry id."""

    def __init__(self, options: CacheOptions, stats: Stats) -> None:
        self._options = options
        self._stats = stats
        self.entries: SegmentedLru[T] = SegmentedLru(options.max_entries, options.max_bytes)
        self.flights: dict[str, Flight[T]] = {}

    def flush(self) -> None:
        """Forget everything, and keep nothing of what is being loaded."""
        self._stats.flushes += 1
        self.entries.clear()
        for flight in self.flights.values():
            flight.heard = math.inf
        self.flights.clear()

    def mark(self, entry_id: str, version: int) -> None:
        """Drop what is older than `version`; a load under way answers those who wait, later readers start anew."""
        entry = self.entries.peek(entry_id)
        if entry is not None and entry.version < version:
            self.entries.drop(entry_id)
            self._stats.dropped += 1
        flight = self.flights.pop(entry_id, None)
        if flight is not None:
            flight.heard = max(flight.heard, version)

    def keep(
        self, entry_id: str, flight: Flight[T] | None, value: T | None, version: int, *, life_s: float, size: int
    ) -> None:
        """Store in the first layer unless something newer is known."""
        now = time.monotonic()
        there = self.entries.peek(entry_id)
        newer_there = there is not None and there.expires_at > now and there.version > version
        if newer_there or (flight is not None and flight.heard > version):
            self._stats.superseded += 1
            return
        longest = self._options.l1_ttl_s or self._options.ttl_s
        if value is None:
            longest = min(longest, self._options.negative_ttl_s)
        self.entries.put(entry_id, Entry(value, version, now + min(longest * random.uniform(0.9, 1.0), life_s), size))
