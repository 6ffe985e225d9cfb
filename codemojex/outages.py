"""Says once that something is away, not in every try of every loop: when it begins, every minute, and when it is over.

A record that carries `outage`, the name of what is away, is one fault of that outage, whichever loop it comes from. The
first is logged as it is, the others are counted. An outage is over when nobody has told of it for a while; `again_s` on
a record says when its loop will try again. Records without the name pass.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

QUIET_S = 10.0  # longer than any loop without `again_s` lets pass between two tries
EVERY_S = 60.0
_TICK_S = 1.0
_log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Outage:
    """What is known of one outage; instants are monotonic seconds."""

    began: float
    last: float
    said: float
    over_at: float
    faults: int = 1


class Outages(logging.Filter):
    """The filter of a log's handler, and the clock of its outages: `watch` until cancelled, `end` at the end."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic, *, quiet_s: float = QUIET_S) -> None:
        super().__init__()
        self._quiet_s = quiet_s
        self._monotonic = monotonic
        self._open: dict[str, _Outage] = {}
        self._lock = threading.Lock()  # records come from other threads as well

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether the record is written; the minute's line is written in its place."""
        name = record.__dict__.pop("outage", None)
        again_s = float(record.__dict__.pop("again_s", None) or 0)
        if name is None:
            return True
        now = self._monotonic()
        with self._lock:
            known = self._open.get(name)
            if known is None:
                self._open[name] = _Outage(now, now, now, now + again_s + self._quiet_s)
                record.outage = name  # the line says of what it is the first fault
                return True
            known.faults += 1
            known.last, known.over_at = now, max(known.over_at, now + again_s + self._quiet_s)
            if now - known.said < EVERY_S:
                return False
            known.said = now
            faults, since_s = known.faults, now - known.began
        # A record of its own: other handlers read the one that came.
        _log.warning("%s is still away, %d faults in %.0f s; the last: %s", name, faults, since_s, record.getMessage())
        return False

    def tick(self) -> None:
        """Say what is over."""
        now = self._monotonic()
        with self._lock:
            over = {name: known for name, known in self._open.items() if now >= known.over_at}
            for name in over:
                del self._open[name]
        for name, known in over.items():
            _log.info("%s is there again: %d faults in %.0f s", name, known.faults, known.last - known.began)

    def end(self) -> None:
        """Say what is not over when the process ends."""
        with self._lock:
            left, self._open = self._open, {}
        for name, known in left.items():
            if known.faults > 1:
                _log.warning(
                    "%s was away until the end: %d faults in %.0f s", name, known.faults, known.last - known.began
                )

    async def watch(self) -> None:
        """Tick until cancelled."""
        while True:
            await asyncio.sleep(_TICK_S)
            self.tick()
