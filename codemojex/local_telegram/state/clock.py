"""The time of the local Telegram: wall time for dates, monotonic time for limits, one shift for both.

A test that needs "a day later" shifts this clock instead of sleeping. Waiting (long polls, faults) uses the event
loop's own time and is not shifted.
"""

import time
from datetime import UTC, datetime

LATEST = 2**32  # of Unix seconds


class TelegramClock:
    """Wall and monotonic seconds, both moved by `shift`."""

    def __init__(self) -> None:
        self._shift_s = 0.0

    def now(self) -> float:
        """Unix time in seconds, shifted."""
        return datetime.now(UTC).timestamp() + self._shift_s

    def date(self) -> int:
        """Unix time in whole seconds: what the Bot API calls a date."""
        return int(self.now())

    def monotonic(self) -> float:
        """Seconds that only `shift` can move back."""
        return time.monotonic() + self._shift_s

    def shift(self, seconds: float) -> None:
        """Jump by `seconds` (negative: back). Raises ValueError when no date of the Bot API would be left."""
        if not 0 < self.now() + seconds < LATEST:  # false for what is not a number, too
            raise ValueError("the time must stay between the years 1970 and 2106")
        self._shift_s += seconds
