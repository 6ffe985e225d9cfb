"""Keeps the state in one JSON file: saved soon after each change and at stop, replaced atomically.

A crash loses at most the last half second and never leaves a half-written file. Without a file nothing is written.
Two servers must not share a file; the second one is refused.
"""

import asyncio
import fcntl
import os
from pathlib import Path
from typing import IO

import msgspec

from codemojex.local_telegram.state.model import State

SAVE_DELAY_S = 0.3


class Storage:
    """The data file of one server."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._state: State | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._lock: IO[str] | None = None

    def open(self, fresh: State) -> State:
        """Take the file and return the state in it, or `fresh` when there is none."""
        self._state = fresh
        if self._path is None:
            return fresh
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._lock = self._path.with_name(self._path.name + ".lock").open("w")
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            self._lock.close()
            raise RuntimeError(
                f"{self._path} is in use by another local Telegram; stop it or name another file"
            ) from error
        if self._path.exists():
            try:
                self._state = msgspec.json.decode(self._path.read_bytes(), type=State)
            except msgspec.MsgspecError as error:
                self._lock.close()
                raise RuntimeError(
                    f"{self._path} is not a state of the local Telegram ({error}); move it away"
                ) from error
        return self._state

    def touch(self) -> None:
        """Something changed: save within half a second."""
        if self._path is not None and self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(SAVE_DELAY_S, self.save)

    def save(self) -> None:
        """Write now."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._path is None or self._state is None:
            return
        draft = self._path.with_name(self._path.name + ".new")
        with draft.open("wb") as file:
            file.write(msgspec.json.encode(self._state))
            file.flush()
            os.fsync(file.fileno())
        draft.replace(self._path)

    def close(self) -> None:
        """Save for the last time and let go of the file."""
        self.save()
        self.abandon()

    def abandon(self) -> None:
        """Let go of the file without saving."""
        self._path = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._lock is not None:
            self._lock.close()
            self._lock = None
