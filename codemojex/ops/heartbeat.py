"""Tells a health probe, which is another process, that the loops of this one still turn.

Each role's file holds the machine's monotonic time of its last beat. The beat comes from the event loop that does the
work, so a process that hangs stops beating although it still runs. Files mean nothing after a restart of the machine:
a beat from the future counts as none.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from pathlib import Path

INTERVAL_S = 2.0
STALE_S = 15.0


class Heartbeat:
    """The beats of one process's roles, kept in `directory`."""

    def __init__(self, directory: Path, roles: Sequence[str], monotonic: Callable[[], float] = time.monotonic) -> None:
        self._directory = directory
        self._roles = tuple(roles)
        self._monotonic = monotonic

    def beat(self) -> None:
        """Note that the roles are alive now."""
        self._directory.mkdir(parents=True, exist_ok=True)
        for role in self._roles:
            written = self._directory / f"{role}.new"
            written.write_text(f"{self._monotonic()!r}\n")  # unrounded: a beat is never from the future
            written.replace(self._directory / role)

    async def run(self) -> None:
        """Beat until cancelled; the files go with the end."""
        try:
            while True:
                self.beat()
                await asyncio.sleep(INTERVAL_S)
        finally:
            for role in self._roles:
                (self._directory / role).unlink(missing_ok=True)


def age_s(directory: Path, role: str, monotonic: Callable[[], float] = time.monotonic) -> float | None:
    """Seconds since the role's last beat; None when there was none since the machine started."""
    try:
        age = monotonic() - float((directory / role).read_text())
    except (OSError, ValueError):
        return None
    return age if age >= 0 else None
