"""How long a failed job waits before its next attempt.

A backoff travels in the job's row (or with the settlement) as a short text, and the settlement script computes the
delay from the failures it has just counted. The functions here say the same in Python, for tests and for callers.
"""

from __future__ import annotations

from dataclasses import dataclass

from codemojex.engine import validation

LONGEST_MS = 30 * 24 * 3600 * 1000


@dataclass(frozen=True, slots=True)
class Fixed:
    """The same delay after every failure."""

    ms: int = 1000

    def __post_init__(self) -> None:
        validation.integer("backoff ms", self.ms, 0, LONGEST_MS, " ms (30 days)")

    @property
    def wire(self) -> str:
        return f"fixed:{self.ms}"

    def delay_ms(self, failures: int, chance: float = 0.0) -> int:
        """The delay after the `failures`-th failure (1 for the first)."""
        return self.ms


@dataclass(frozen=True, slots=True)
class Exponential:
    """`base_ms * 2 ** (failures - 1)`, at most `cap_ms`; with jitter a whole number drawn from 0 to that, inclusive."""

    base_ms: int = 1000
    cap_ms: int = 60_000
    jitter: bool = True

    def __post_init__(self) -> None:
        validation.integer("backoff base_ms", self.base_ms, 0, LONGEST_MS, " ms (30 days)")
        validation.integer("backoff cap_ms", self.cap_ms, 0, LONGEST_MS, " ms (30 days)")
        validation.flag("backoff jitter", self.jitter)

    @property
    def wire(self) -> str:
        return f"exp:{self.base_ms}:{self.cap_ms}:{int(self.jitter)}"

    def delay_ms(self, failures: int, chance: float = 0.0) -> int:
        """The delay after the `failures`-th failure; `chance` in [0, 1) is the draw."""
        longest = min(self.cap_ms, self.base_ms * 2 ** min(failures - 1, 62))
        return int(chance * (longest + 1)) if self.jitter else longest


Backoff = Fixed | Exponential


DEFAULT: Backoff = Fixed(1000)
