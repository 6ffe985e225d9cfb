"""A circuit breaker: after a few faults in a row nobody waits for a service that is down.

While it is open calls are refused at once; when its time is over one call probes, and its result decides.
"""

from __future__ import annotations

import random
import time


class Circuit:
    """Opens after `threshold` faults in a row for `open_ms`, doubling up to `max_open_ms` while probes fail."""

    def __init__(self, threshold: int = 3, open_ms: int = 250, max_open_ms: int = 5_000) -> None:
        self._threshold = threshold
        self._open_ms = open_ms
        self._max_open_ms = max_open_ms
        self._faults = 0
        self._open_until = 0.0
        self._probe_until = 0.0

    @property
    def closed(self) -> bool:
        """Whether calls pass freely."""
        return self._faults < self._threshold

    def allows(self) -> bool:
        """Whether a call may go out now. With an open circuit only one at a time may, as a probe."""
        now = time.monotonic()
        if self.closed:
            return True
        if now < self._open_until or now < self._probe_until:
            return False
        self._probe_until = now + self._max_open_ms / 1000  # in case the probe never reports
        return True

    def hint(self) -> None:
        """The service was seen alive: the next call may probe at once."""
        self._open_until = 0.0

    def succeeded(self) -> None:
        """A call was answered."""
        self._faults = 0
        self._probe_until = 0.0

    def failed(self) -> None:
        """A call was not answered."""
        self._faults = min(self._faults + 1, self._threshold + 16)
        self._probe_until = 0.0
        if not self.closed:
            open_ms = min(self._open_ms * 2 ** (self._faults - self._threshold), self._max_open_ms)
            self._open_until = time.monotonic() + random.uniform(0.5, 1.0) * open_ms / 1000
