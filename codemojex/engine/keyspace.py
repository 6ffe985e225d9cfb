"""Every key of the bus is built here, and only here.

A queue's keys share one hash tag and so one slot: a script may touch them all, and a cluster places a queue whole.
Names and ids are checked before any I/O. The deployment's own keys (`{emq}:…`) lie in a slot of their own.
"""

from __future__ import annotations

import binascii
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from codemojex.engine import ids, validation
from codemojex.engine.errors import CrossSlot, InvalidName

WIRE_VERSION = "echomq:3.0.0"
VERSION_KEY = "{emq}:version"
NODES_KEY = "{emq}:nodes"
RESERVED_NODES_KEY = f"{NODES_KEY}:reserved"
QUEUES_KEY = "{emq}:queues"
ANY_QUEUE = "emq:*"  # a pattern: the keys of every queue

_QUEUE = re.compile(r"[A-Za-z0-9._-]{1,128}")
_KEY = re.compile(r"emq:\{([A-Za-z0-9._-]{1,128})\}:(.+)", re.DOTALL)
_DEDUP = re.compile(r"[A-Za-z0-9._:-]{1,255}")
_STREAM = re.compile(r"[A-Za-z0-9._-]{1,128}")
_REPEAT = re.compile(r"[A-Za-z0-9._:-]{1,128}")
_GROUP = re.compile(r"[!-~]{1,256}")
_TABLE = re.compile(r"(?:[a-z][a-z0-9-]{0,23}\.)?[a-z_]{1,64}")
_QUEUE_RULE = "use 1 to 128 of A-Z a-z 0-9 . _ - and not the reserved name emq"
_DEDUP_RULE = "use 1 to 255 of A-Z a-z 0-9 . _ : -"
_STREAM_RULE = "use 1 to 128 of A-Z a-z 0-9 . _ - and not the reserved name cell"
_REPEAT_RULE = "use 1 to 128 of A-Z a-z 0-9 . _ : -"
_GROUP_RULE = "use 1 to 256 printable ASCII characters without a space"
_TABLE_RULE = "use 1 to 64 of a-z and _, after a namespace and a dot if there is one"
NAME_RULES = {
    "queue": _QUEUE.pattern,
    "dedup key": _DEDUP.pattern,
    "stream": _STREAM.pattern,
    "repeat": _REPEAT.pattern,
    "cache table": _TABLE.pattern,
}


@dataclass(frozen=True, slots=True)
class Keyspace:
    """The keys of one queue. Build it with `of`; `prefix` is what scripts take as their first key."""

    queue: str
    prefix: str

    def key(self, suffix: str) -> str:
        """`emq:{queue}:suffix`, for the fixed families: pending, active, schedule, dead, ring, meta, …"""
        return self.prefix + suffix

    def row(self, job_id: str) -> str:
        """The job's hash. Raises InvalidId unless `job_id` is a branded id of any namespace."""
        return f"{self.prefix}job:{ids.require(job_id)}"

    def part(self, job_id: str, name: str) -> str:
        """What hangs on a job: `logs`, `lock`, `dependencies`, `processed`, `failed` or `unsuccessful`."""
        return f"{self.row(job_id)}:{name}"

    def lane(self, lane: str) -> str:
        """The backlog of one lane."""
        return f"{self.prefix}g:{ids.require(lane)}:pending"

    def dedup(self, key: str) -> str:
        """Where a producer's idempotency key is parked."""
        return f"{self.prefix}de:{dedup_key(key)}"

    def repeat(self, name: str) -> str:
        """The record of a repeated job."""
        return f"{self.prefix}repeat:{repeat_name(name)}"

    def stream(self, name: str) -> str:
        """An event stream."""
        if not _STREAM.fullmatch(validation.name("stream", name, _STREAM_RULE)) or name == "cell":
            raise InvalidName("stream", name, _STREAM_RULE)
        return f"{self.prefix}stream:{name}"

    def archived(self, name: str) -> str:
        """The cached archive watermark of a stream."""
        return f"{self.stream(name)}:archived"

    def quarantine(self, name: str) -> str:
        """Where the groups of a stream put entries that nobody can handle."""
        return f"{self.stream(name)}:quarantine"

    def events(self) -> str:
        """The publish/subscribe channel of lifecycle events."""
        return f"{self.prefix}events"

    def require_same_slot(self, keys: Iterable[str]) -> None:
        """Raise CrossSlot, naming the first key outside this queue's slot."""
        home = slot(self.prefix)
        tag = f"{{{self.queue}}}"
        for key in keys:
            same_tag = key[key.find("{") : key.find("}") + 1] == tag  # spares the hash in the usual case
            if not same_tag and slot(key) != home:
                raise CrossSlot(
                    f"key {key!r} is not in the slot of queue {self.queue!r}: give it the tag {{{self.queue}}}"
                )


def of(queue: str) -> Keyspace:
    """The keyspace of `queue`: 1 to 128 of `A-Za-z0-9._-`, and not the reserved `emq`. Raises InvalidName."""
    return _of(validation.name("queue", queue, _QUEUE_RULE))


@lru_cache(maxsize=4096)
def _of(queue: str) -> Keyspace:
    if not _QUEUE.fullmatch(queue) or queue == "emq":
        raise InvalidName("queue", queue, _QUEUE_RULE)
    return Keyspace(queue, f"emq:{{{queue}}}:")


def place_of(key: str) -> tuple[str, str] | None:
    """The queue of a key, and what stands behind its prefix; None for a key of no queue."""
    found = _KEY.fullmatch(key)
    return (found[1], found[2]) if found and found[1] != "emq" else None


def dedup_key(key: str) -> str:
    """`key` itself when it is a legal idempotency key; raises InvalidName otherwise."""
    if not _DEDUP.fullmatch(validation.name("dedup key", key, _DEDUP_RULE)):
        raise InvalidName("dedup key", key, _DEDUP_RULE)
    return key


def repeat_name(name: str) -> str:
    """`name` itself when a repeated job may be called so; raises InvalidName otherwise."""
    if not _REPEAT.fullmatch(validation.name("repeated job", name, _REPEAT_RULE)):
        raise InvalidName("repeated job", name, _REPEAT_RULE)
    return name


def group_name(what: str, name: str) -> str:
    """`name` itself when a consumer group, or a reader of one, may be called so; raises InvalidName otherwise."""
    if not _GROUP.fullmatch(validation.name(what, name, _GROUP_RULE)):
        raise InvalidName(what, name, _GROUP_RULE)
    return name


def cache(table: str, entry_id: str) -> str:
    """The second-layer entry of a near-cache table."""
    return f"{cache_prefix(table)}{entry_id}"


def cache_lease(table: str, entry_id: str) -> str:
    """The right to fill an entry; the exclamation mark keeps it apart from every entry."""
    return f"{cache(table, entry_id)}!fill"


def cache_log(table: str) -> str:
    """The coherence log of a near-cache table."""
    return f"{cache_prefix(table)}log"


def cache_prefix(table: str) -> str:
    """`ecc:{table}:`: what every key of a near-cache table starts with."""
    if not _TABLE.fullmatch(validation.name("cache table", table, _TABLE_RULE)):
        raise InvalidName("cache table", table, _TABLE_RULE)
    return f"ecc:{{{table}}}:"


def slot(key: str) -> int:
    """The cluster slot of a key: CRC16-XMODEM over its hash tag, modulo 16384."""
    start = key.find("{")
    if start >= 0:
        end = key.find("}", start + 1)
        if end > start + 1:
            key = key[start + 1 : end]
    return binascii.crc_hqx(key.encode(errors="surrogateescape"), 0) % 16384
