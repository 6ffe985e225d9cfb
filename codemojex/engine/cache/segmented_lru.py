"""A bounded map of cached values that a scan cannot empty: a segmented least-recently-used list.

New entries are on probation; one that is asked for again is protected. Room is made from probation first, so a pass
over many ids that are read once pushes out only others of that sort. Bounded by entries and by bytes.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")
_PROTECTED_SHARE = 0.8
_ENTRY_OVERHEAD_BYTES = 200  # what an entry costs besides its payload, roughly


@dataclass(frozen=True, slots=True)
class Entry(Generic[T]):
    """A cached value, None for a known absence. `expires_at` is monotonic seconds."""

    value: T | None
    version: int
    expires_at: float
    size: int


class SegmentedLru(Generic[T]):
    """Entries by id. Not thread-safe: it lives in one event loop."""

    def __init__(self, max_entries: int, max_bytes: int) -> None:
        self._max_entries = max_entries
        self._max_bytes = max_bytes
        self._probation: OrderedDict[str, Entry[T]] = OrderedDict()
        self._protected: OrderedDict[str, Entry[T]] = OrderedDict()
        self.bytes = 0
        self.evicted = 0

    def __len__(self) -> int:
        return len(self._probation) + len(self._protected)

    def peek(self, entry_id: str) -> Entry[T] | None:
        """The entry, expired or not, without counting as use."""
        return self._protected.get(entry_id) or self._probation.get(entry_id)

    def get(self, entry_id: str, now: float) -> Entry[T] | None:
        """The entry unless it has expired; it counts as used."""
        entry = self.peek(entry_id)
        if entry is None or entry.expires_at <= now:
            if entry is not None:
                self.drop(entry_id)
            return None
        if entry_id in self._protected:
            self._protected.move_to_end(entry_id)
            return entry
        del self._probation[entry_id]
        self._protected[entry_id] = entry
        while len(self._protected) > max(1, int(self._max_entries * _PROTECTED_SHARE)):
            oldest, demoted = self._protected.popitem(last=False)
            self._probation[oldest] = demoted
        return entry

    def put(self, entry_id: str, entry: Entry[T]) -> None:
        """Store it over whatever is there, and make room. One that is too large for the bounds is not kept."""
        protected = entry_id in self._protected
        self.drop(entry_id)
        cost = entry.size + _ENTRY_OVERHEAD_BYTES
        if cost > self._max_bytes:
            return
        while len(self) and (len(self) >= self._max_entries or self.bytes + cost > self._max_bytes):
            self.drop(next(iter(self._probation or self._protected)))
            self.evicted += 1
        (self._protected if protected else self._probation)[entry_id] = entry
        self.bytes += cost

    def drop(self, entry_id: str) -> None:
        """Forget an entry, if it is there."""
        entry = self._probation.pop(entry_id, None) or self._protected.pop(entry_id, None)
        if entry is not None:
            self.bytes -= entry.size + _ENTRY_OVERHEAD_BYTES

    def clear(self) -> None:
        """Forget everything."""
        self._probation.clear()
        self._protected.clear()
        self.bytes = 0
