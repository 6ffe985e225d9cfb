"""The frame of a near-cache entry as it lies in Valkey; `lua/include/cache/cache_frame.lua` writes what this reads.

`EC1`, kind, version (20 digits), absolute expiry (16 digits, server milliseconds), payload. A frame that does not
parse is None: whoever reads drops it and loads again.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from codemojex.engine import validation

MAX_VERSION = 2**63 - 1
_HEAD = re.compile(rb"EC1([VNT])(\d{20})(\d{16})")
_HEAD_BYTES = 40


@dataclass(frozen=True, slots=True)
class Frame:
    """`kind`: V a value, N known to be absent, T a tombstone: everything below `version` is void."""

    kind: str
    version: int
    expires_at_ms: int
    payload: bytes
    raw: bytes


def decode(raw: bytes) -> Frame | None:
    """The frame, or None when it is corrupt."""
    match = _HEAD.match(raw)
    if match is None:
        return None
    kind, version, expires_at_ms = match.groups()
    return Frame(kind.decode(), int(version), int(expires_at_ms), raw[_HEAD_BYTES:], raw)


def digits(version: int) -> str:
    """A version in fixed width, so that order of digits is order of numbers. Raises InvalidValue out of range."""
    return f"{validation.integer('version', version, 0, MAX_VERSION):020d}"
