"""The machine of what lies beside the queues: streams with groups and retention, near-cache entries, node numbers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from tests.engine.model.machine.keeping import Keeping
from tests.engine.model.machine.recording import Recording


class Sides(Recording, Keeping):
    """One database with all of them."""

    often: ClassVar[Mapping[str, int]] = {"append": 2, "read_as_group": 2, "acknowledge": 1, "cache_write": 3}

    def agree(self, found: dict[str, Any], ends: dict[str, float], now: int) -> None:
        self.agree_beside(found, ends, now)
        super().agree(found, ends, now)
