"""An entry of a near-cache's second layer: newer replaces older, one reader at a time has the right to fill it.

Kinds: V a value, N known to be absent, T a tombstone: everything below its version is void.
"""

from __future__ import annotations

from dataclasses import dataclass

from tests.engine.model.plain.state import Fresh


@dataclass(frozen=True)
class Frame:
    kind: str
    version: int
    payload: str
    ends: Fresh


@dataclass
class Entry:
    frame: Frame | None = None
    broken: bool = False  # what lies there is no frame
    lease: str | None = None

    def read(self, token: str) -> str:
        """Whether the reader shall fill the entry (`lease`), another one does (`wait`), or nobody needs to."""
        if not token or (self.frame and self.frame.kind != "T"):
            return ""
        if self.lease:
            return "wait"
        self.lease = token
        return "lease"

    def newer(self, mode: str, kind: str, version: int, expected: int) -> bool:
        there = self.frame
        if mode == "cas":
            return (there.version if there else 0) == expected
        if there is None:
            return True
        if kind == "N":
            return there.kind == "N" or (there.kind == "T" and there.version == expected)
        if version != there.version:
            return version > there.version
        return kind == "V" and (there.kind != "V" or mode == "fill")

    def write(self, mode: str, frame: Frame, token: str, expected: int) -> tuple[bool, bool]:
        """Whether the write counted, and whether everybody is told."""
        newer = mode != "release" and self.newer(mode, frame.kind, frame.version, expected)
        before = self.frame
        if mode in ("put", "cas") or (token and self.lease == token):
            self.lease = None
        if not newer:
            return False, False
        self.frame, self.broken = frame, False
        replaced = before is not None and before.kind != "T" and before.version < frame.version
        return True, mode != "fill" or replaced
