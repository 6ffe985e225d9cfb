"""A bounded memory of recent things: what was seen, for how long, and never more than so many."""

from __future__ import annotations

import time
from collections import OrderedDict


class Recent:
    """Remembers up to `size` names for `life_s` seconds; the oldest go first."""

    def __init__(self, size: int, life_s: float) -> None:
        self._size = size
        self._life_s = life_s
        self._seen: OrderedDict[str, tuple[float, int]] = OrderedDict()

    def count(self, name: str) -> int:
        """How often `name` was added within its life."""
        at, times = self._seen.get(name, (0.0, 0))
        return times if times and time.monotonic() - at < self._life_s else 0

    def add(self, name: str) -> int:
        """Remember `name` once more; how often that is by now."""
        times = self.count(name) + 1
        self._seen[name] = (time.monotonic(), times)
        self._seen.move_to_end(name)
        while len(self._seen) > self._size:
            self._seen.popitem(last=False)
        return times

    def forget(self, name: str) -> None:
        """Remember it no longer."""
        self._seen.pop(name, None)
