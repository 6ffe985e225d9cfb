"""The machine of what lies beside the queues: streams with groups and retention, near-cache entries, node numbers."""

from __future__ import annotations

from typing import Any

from .keeping import Keeping
from .recording import Recording


class Sides(Recording, Keeping):
    """One database with all of them."""

    always = frozenset(("append", "read_as_group", "cache_write"))

    def agree(self, found: dict[str, Any], ends: dict[str, float], now: int) -> None:
        self.agree_beside(found, ends, now)
        super().agree(found, ends, now)
