"""What the near-cache speaks in: values with versions, verdicts, options and counters. No I/O."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from codemojex.engine import validation
from codemojex.engine.errors import InvalidValue

T = TypeVar("T")
_MOST = 1 << 40
_LONGEST_S = 366 * 86_400


class Codec(Protocol[T]):
    """Turns values into bytes and back; `decode` raises anything for bytes it cannot read."""

    def encode(self, value: T) -> bytes: ...
    def decode(self, payload: bytes) -> T: ...


@dataclass(frozen=True, slots=True)
class Loaded(Generic[T]):
    """A value of the source of truth and the version that was read with it (1 or more)."""

    value: T
    version: int


Loader = Callable[[str], Awaitable[Loaded[T] | None]]


@dataclass(frozen=True, slots=True)
class Read(Generic[T]):
    """`value` is None for what does not exist. `source`: hit (this process), l2 (Valkey), fill (the loader)."""

    value: T | None
    source: str
    version: int


@dataclass(frozen=True, slots=True)
class Applied:
    """The write is the newest. `shared` is False when Valkey was away: other processes hear of it later."""

    shared: bool = True


@dataclass(frozen=True, slots=True)
class Superseded:
    """Something at least as new was there; nothing changed."""


@dataclass(frozen=True, slots=True)
class CacheOptions:
    """How a table keeps. `l1_ttl_s`: longest stay in the process, None for `ttl_s`.

    `grace_ms`: how stale the first layer may be; without word from the log for so long it is not served. `block_ms`:
    how long the tail waits in one command, at most a third of the grace. `load_timeout_ms`: longest load;
    `fill_lease_ms`: how long other processes wait for the one that loads; `l2_timeout_ms`: longest wait for Valkey.
    """

    ttl_s: float = 300.0
    negative_ttl_s: float = 10.0
    l1_ttl_s: float | None = None
    max_entries: int = 10_000
    max_bytes: int = 32 * 1024 * 1024
    max_value_bytes: int = 65_536
    grace_ms: int = 3_000
    block_ms: int = 1_000
    load_timeout_ms: int = 5_000
    fill_lease_ms: int = 1_000
    l2_timeout_ms: int = 500

    def __post_init__(self) -> None:
        for name in self.__slots__:
            value = getattr(self, name)
            if not name.endswith("_s"):
                validation.integer(name, value, 1, _MOST)
            elif value is not None or name != "l1_ttl_s":
                validation.number(name, value, 0.001, _LONGEST_S)
        if self.block_ms * 3 > self.grace_ms:
            raise InvalidValue(f"block_ms {self.block_ms} is too long: at most a third of grace_ms {self.grace_ms}")


@dataclass(slots=True)
class Stats:
    """Counters since the start."""

    hits: int = 0
    l2: int = 0
    fills: int = 0
    coalesced: int = 0
    refreshes: int = 0
    evicted: int = 0
    superseded: int = 0
    dropped: int = 0  # entries of the first layer that a change made void
    flushes: int = 0
    corrupt: int = 0
    down: int = 0  # calls that Valkey did not answer
    entries: int = 0
    bytes: int = 0
    lag_ms: float = math.inf  # since everything was surely heard
