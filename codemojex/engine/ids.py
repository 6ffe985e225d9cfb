"""Branded ids: 14 bytes that say what they name, when it was minted and by which node.

Three capital letters, then a 63-bit snowflake (41 bits of milliseconds, 10 of node, 12 of sequence) in fixed-width
base 62, so that byte order is mint order inside one namespace. Producers mint; the server never does, except for
stream records whose order it decides itself. This module does no I/O and reads no clock but the one it is given.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from typing import NewType

from codemojex.engine import validation
from codemojex.engine.clock import Clock, clock_or
from codemojex.engine.errors import InvalidId, InvalidValue

BrandedId = NewType("BrandedId", str)

EPOCH_MS = 1_704_067_200_000
MAX_SNOWFLAKE = 2**63 - 1
MAX_NODE = 1023
SCRIPT_NODES = range(1008, 1024)  # never leased to a process: stream records minted inside scripts carry them
LEASED_NODES = range(128, SCRIPT_NODES.start)  # the lower ones are for engines whose numbers are set by hand or hashed
ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_DIGIT = {c: i for i, c in enumerate(ALPHABET)}
_WIDTH = 11
_LENGTH = 14
_LAST_PAYLOAD = "AzL8n0Y58m7"  # base62 of 2**63 - 1; fixed width makes the byte-wise comparison exact
_TAIL_BITS = 22
_NODES = re.compile(r"([0-9]{1,4})(?:-([0-9]{1,4}))?")
_STREAM_ID = re.compile(r"([0-9]{1,20})-([0-9]{1,20})")


@dataclass(frozen=True, slots=True)
class Parsed:
    """The parts of a branded id."""

    namespace: str
    snowflake: int

    @property
    def unix_ms(self) -> int:
        return (self.snowflake >> _TAIL_BITS) + EPOCH_MS

    @property
    def node(self) -> int:
        return (self.snowflake >> 12) & 0x3FF

    @property
    def seq(self) -> int:
        return self.snowflake & 0xFFF

    @property
    def tail(self) -> int:
        """Node and sequence together: the second half of the stream id."""
        return self.snowflake & 0x3FFFFF

    @property
    def stream_id(self) -> str:
        """`<unix ms>-<node and sequence>`: the explicit id of the record in a Valkey stream."""
        return f"{self.unix_ms}-{self.tail}"


def base62(snowflake: int) -> str:
    """Eleven digits, most significant first. Raises InvalidValue outside [0, 2**63)."""
    validation.integer("snowflake", snowflake, 0, MAX_SNOWFLAKE)
    digits: list[str] = []
    for _ in range(_WIDTH):
        snowflake, digit = divmod(snowflake, 62)
        digits.append(ALPHABET[digit])
    return "".join(reversed(digits))


def encode(namespace: str, snowflake: int) -> BrandedId:
    """The branded id of `snowflake`. Raises InvalidId for a namespace that is not three capitals."""
    if not isinstance(namespace, str) or not _is_namespace(namespace):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InvalidId(namespace, "namespace", "a namespace is three capital letters A-Z")
    return BrandedId(namespace + base62(snowflake))


def parse(value: str) -> Parsed:
    """Take an id apart. Checks in order type, length, namespace, charset, range; the error carries which one failed."""
    if not isinstance(value, str):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers may hand in anything
        raise InvalidId(value, "type", "an id is a str of 14 characters")
    if len(value) != _LENGTH:
        raise InvalidId(value, "length", "an id has exactly 14 characters")
    namespace, payload = value[:3], value[3:]
    if not _is_namespace(namespace):
        raise InvalidId(value, "namespace", "it must start with three capital letters A-Z")
    snowflake = 0
    for char in payload:
        digit = _DIGIT.get(char)
        if digit is None:
            raise InvalidId(value, "charset", "after the namespace only 0-9, A-Z and a-z may stand")
        snowflake = snowflake * 62 + digit
    if payload > _LAST_PAYLOAD:
        raise InvalidId(value, "range", f"its number is above 2**63-1, the last is {_LAST_PAYLOAD}")
    return Parsed(namespace, snowflake)


def is_valid(value: str) -> bool:
    """Whether `value` is a branded id of any namespace."""
    return (
        isinstance(value, str)  # pyright: ignore[reportUnnecessaryIsInstance]  # callers may hand in anything
        and len(value) == _LENGTH
        and _is_namespace(value[:3])
        and value[3:].isascii()
        and value[3:].isalnum()
        and value[3:] <= _LAST_PAYLOAD
    )


def require(value: str, *namespaces: str) -> BrandedId:
    """`value` itself when it is well formed and, if given, of one of `namespaces`; raises InvalidId otherwise."""
    if not is_valid(value):
        parse(value)
    if namespaces and value[:3] not in namespaces:
        raise InvalidId(value, "kind", f"expected an id that starts with {' or '.join(namespaces)}")
    return BrandedId(value)


def rebrand(value: str, namespace: str) -> BrandedId:
    """The same number under another brand: a guess and its job are one act."""
    return encode(namespace, parse(value).snowflake)


def derive(namespace: str, name: str) -> BrandedId:
    """A fixed id for an outside name (a chat, say): 63 bits of its SHA-256. The same name always gives the same id."""
    digest = hashlib.sha256(validation.text("name", name).encode()).digest()
    return encode(namespace, int.from_bytes(digest[:8], "big") & MAX_SNOWFLAKE)


def from_stream_id(namespace: str, stream_id: str) -> BrandedId:
    """The branded id of a stream record: the inverse of `Parsed.stream_id`."""
    match = _STREAM_ID.fullmatch(validation.text("stream id", stream_id))
    if match is None or not int(match[2]) >> _TAIL_BITS == 0 <= int(match[1]) - EPOCH_MS:
        raise InvalidId(stream_id, "stream id", "use <unix ms>-<node and sequence> of an id")
    return encode(namespace, ((int(match[1]) - EPOCH_MS) << _TAIL_BITS) | int(match[2]))


def min_for(unix_ms: int) -> int:
    """The smallest snowflake of that millisecond: the lower bound of a half-open range scan."""
    return (validation.integer("unix_ms", unix_ms, 0, 1 << 48) - EPOCH_MS) << _TAIL_BITS


def placement(value: str) -> int:
    """The placement hash of an id: the first half of MurmurHash3's fmix64, low 32 bits; the namespace is ignored."""
    return hash32(parse(value).snowflake)


def hash32(snowflake: int) -> int:
    """See `placement`."""
    k = snowflake & 0xFFFFFFFFFFFFFFFF
    k ^= k >> 33
    k = (k * 0xFF51AFD7ED558CCD) & 0xFFFFFFFFFFFFFFFF
    k ^= k >> 33
    return k & 0xFFFFFFFF


def node_numbers(numbers: range | str) -> range:
    """A run of node numbers that processes can lease, also from text such as `68` or `300-399`. Raises InvalidValue."""
    if isinstance(numbers, str):
        found = _NODES.fullmatch(numbers.strip())
        if found is None:
            raise InvalidValue(f"{numbers!r} is no run of node numbers: write one such as 68, or 300-399")
        numbers = range(int(found[1]), int(found[2] or found[1]) + 1)
    validation.one_of("node numbers", numbers, range)
    if numbers.step != 1 or not numbers or numbers[0] < 0 or numbers[-1] >= SCRIPT_NODES.start:
        raise InvalidValue(f"node numbers must be a rising run from 0 to {SCRIPT_NODES.start - 1}, not {numbers}")
    return numbers


def _is_namespace(text: str) -> bool:
    return len(text) == 3 and text.isascii() and text.isalpha() and text.isupper()


class Minter:
    """Mints ids that strictly increase in this process, whatever the wall clock does.

    One cell holds the last `(ms << 12) | seq`. More than 4,096 ids in a millisecond run ahead of the clock; a clock
    that steps back is ignored until it has caught up. Two processes never mint the same id as long as their
    `node` differs: lease it with `nodes.NodeLease`.
    """

    def __init__(self, node: int, clock: Clock | None = None) -> None:
        self.node = validation.integer("node", node, 0, MAX_NODE)
        self._clock = clock_or(clock)
        self._cell = 0

    def mint(self, namespace: str) -> BrandedId:
        """A fresh id of `namespace`."""
        now = (self._clock.now_ms() - EPOCH_MS) << 12
        self._cell = max(now, self._cell + 1)
        ms, seq = self._cell >> 12, self._cell & 0xFFF
        return encode(namespace, (ms << _TAIL_BITS) | (self.node << 12) | seq)

    def observe(self, unix_ms: int) -> None:
        """Never again mint an id of `unix_ms` or before: after a stream answered that it is ahead of this clock."""
        self._cell = max(self._cell, ((unix_ms - EPOCH_MS) << 12) | 0xFFF)
