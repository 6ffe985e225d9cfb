"""Sealed segments: the records of a finished stream as deterministic, self-checking bytes.

    "CMXS" | version | count | length of the records | first id | last id | sha-256 of the records   (big-endian header)
    zstd( per record: length (4 bytes) | canonical JSON )
    crc-32 of everything above

The same records give the same bytes and, whatever zstd library compressed them, the same sha-256. Decoding hands out
all records or raises `SegmentDamaged`; it never repairs and never skips.
"""

import hashlib
import json
import struct
import zlib
from collections.abc import Sequence
from typing import Any

import zstandard

from codemojex.store.errors import SegmentDamaged
from codemojex.store.records import StreamRecord

SCHEMA_VERSION = 1
MAX_RECORDS_BYTES = 64 * 1024 * 1024

_MAGIC = b"CMXS"
_HEADER = struct.Struct(">4sHII14s14s32s")
_LENGTH = struct.Struct(">I")
_CRC = struct.Struct(">I")
_LEVEL = 9


def encode(records: Sequence[StreamRecord]) -> bytes:
    """Seal records, at least one, in strictly ascending order of id.

    Raises `ValueError` for an empty, unordered or over-long sequence and for data that JSON cannot carry.
    """
    body = _pack(records)
    header = _HEADER.pack(
        _MAGIC,
        SCHEMA_VERSION,
        len(records),
        len(body),
        records[0].id.encode(),
        records[-1].id.encode(),
        hashlib.sha256(body).digest(),
    )
    sealed = header + zstandard.ZstdCompressor(level=_LEVEL, write_content_size=True).compress(body)
    return sealed + _CRC.pack(zlib.crc32(sealed))


def decode(data: bytes, *, name: str = "(unnamed)") -> list[StreamRecord]:
    """Open a segment and give its records back; `name` is how errors call it. Raises `SegmentDamaged`."""
    if len(data) < _HEADER.size + _CRC.size:
        raise SegmentDamaged(name, f"{len(data)} bytes are too few to hold a header")
    magic, version, count, length, first_id, last_id, digest = _HEADER.unpack_from(data)
    if magic != _MAGIC:
        raise SegmentDamaged(name, "it does not begin with the mark of a segment")
    if _CRC.unpack(data[-_CRC.size :])[0] != zlib.crc32(data[: -_CRC.size]):
        raise SegmentDamaged(name, "its checksum does not fit its bytes")
    if version != SCHEMA_VERSION:
        raise SegmentDamaged(name, f"its schema version is {version}, this program reads {SCHEMA_VERSION}")
    if length > MAX_RECORDS_BYTES:
        raise SegmentDamaged(name, f"it claims {length} bytes of records, over the limit of {MAX_RECORDS_BYTES}")
    body = _decompress(data[_HEADER.size : -_CRC.size], length, name)
    if hashlib.sha256(body).digest() != digest:
        raise SegmentDamaged(name, "the sha-256 of its records is not the one in its header")
    records = _unpack(body, name)
    if len(records) != count:
        raise SegmentDamaged(name, f"it holds {len(records)} records, its header says {count}")
    if (records[0].id.encode(), records[-1].id.encode()) != (first_id, last_id):
        raise SegmentDamaged(name, "its first and last id are not those in its header")
    return records


def digest(data: bytes) -> str:
    """The sha-256, in hex, of the records sealed in a segment, read from its header."""
    return _HEADER.unpack_from(data)[6].hex()


def _pack(records: Sequence[StreamRecord]) -> bytes:
    if not records:
        raise ValueError("a segment needs at least one record")
    body = bytearray()
    previous = ""
    for record in records:
        if len(record.id) != 14 or not record.id.isascii():
            raise ValueError(f"record {record.id!r}: the id is not a branded id of 14 characters")
        if record.id <= previous:
            raise ValueError(f"record {record.id} does not come after {previous}; sort records by id, each id once")
        previous = record.id
        frame = _canonical(record)
        body += _LENGTH.pack(len(frame)) + frame
    if len(body) > MAX_RECORDS_BYTES:
        raise ValueError(f"{len(body)} bytes of records exceed {MAX_RECORDS_BYTES}; seal them in smaller pages")
    return bytes(body)


def _canonical(record: StreamRecord) -> bytes:
    fields = {"id": record.id, "kind": record.kind, "v": record.v, "game": record.game, "data": dict(record.data)}
    try:
        return json.dumps(fields, ensure_ascii=False, allow_nan=False, sort_keys=True, separators=(",", ":")).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"record {record.id}: its data is not JSON ({error})") from error


def _decompress(packed: bytes, length: int, name: str) -> bytes:
    try:
        body = zstandard.ZstdDecompressor().decompress(packed, max_output_size=length, allow_extra_data=False)
    except zstandard.ZstdError as error:
        raise SegmentDamaged(name, f"its records cannot be decompressed ({error})") from error
    if len(body) != length:
        raise SegmentDamaged(name, f"its records have {len(body)} bytes, its header says {length}")
    return body


def _unpack(body: bytes, name: str) -> list[StreamRecord]:
    records: list[StreamRecord] = []
    at = 0
    try:
        while at < len(body):
            (size,) = _LENGTH.unpack_from(body, at)
            at += _LENGTH.size
            fields: dict[str, Any] = json.loads(body[at : at + size])  # Any: JSON, checked by the constructor's names
            records.append(StreamRecord(**fields))
            at += size
    except (struct.error, ValueError, TypeError, RecursionError) as error:
        raise SegmentDamaged(name, f"record {len(records) + 1} cannot be read ({error})") from error
    if at != len(body) or not records:
        raise SegmentDamaged(name, "its records do not end where they should")
    return records
