"""Says when a batch is worth a handler's call: when it is large enough, or its first member has waited long enough.

It knows no clock and no server: how many wait, and what time it is, come with each question. An empty batch is never
handed over.
"""

from __future__ import annotations


class Shaper:
    """A batch goes out when `min_size` wait, or `timeout_ms` after the first of them was seen; `max_size` at most."""

    def __init__(self, min_size: int, timeout_ms: int, max_size: int) -> None:
        self._min_size = min_size
        self._timeout_ms = timeout_ms
        self._max_size = max_size
        self._opened_ms: float | None = None  # when the first waiting job was seen

    def size(self, depth: int, now_ms: float) -> int:
        """How many of `depth` waiting jobs to hand over at `now_ms`; 0 means to wait on."""
        if depth <= 0:
            self._opened_ms = None
            return 0
        if self._opened_ms is None:
            self._opened_ms = now_ms
        if depth < self._min_size and now_ms - self._opened_ms < self._timeout_ms:
            return 0
        self._opened_ms = None
        return min(depth, self._max_size)

    def left_ms(self, now_ms: float) -> float | None:
        """How long the first one may still wait; None while none does."""
        return None if self._opened_ms is None else max(0.0, self._opened_ms + self._timeout_ms - now_ms)
