"""A segment gives back exactly what was sealed, or refuses."""

import hashlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from codemojex.store import segment
from codemojex.store.errors import SegmentDamaged
from codemojex.store.records import StreamRecord
from tests.store.games import records

_text = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | _text,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_text, inner, max_size=4),
    max_leaves=10,
)
_numbers = st.lists(st.integers(0, 10**11 - 1), min_size=1, max_size=12, unique=True).map(sorted)


@st.composite
def sequences(draw) -> list[StreamRecord]:
    return [
        StreamRecord(f"EVT{number:011}", draw(_text), draw(st.integers(1, 9)), "GAM00000000001", data)
        for number in draw(_numbers)
        for data in [draw(st.dictionaries(_text, _json, max_size=4))]
    ]


@settings(max_examples=40, deadline=None)
@given(sequences())
def test_what_is_sealed_comes_back(sealed):
    assert segment.decode(segment.encode(sealed)) == sealed


@settings(max_examples=40, deadline=None)
@given(sequences())
def test_the_same_records_give_the_same_bytes_in_whatever_order_their_data_was_built(sealed):
    rebuilt = [StreamRecord(r.id, r.kind, r.v, r.game, dict(sorted(r.data.items(), reverse=True))) for r in sealed]
    assert segment.encode(rebuilt) == segment.encode(sealed)


@settings(max_examples=40, deadline=None)
@given(sequences(), st.data())
def test_any_changed_byte_is_detected(sealed, data):
    packed = bytearray(segment.encode(sealed))
    at = data.draw(st.integers(0, len(packed) - 1))
    packed[at] ^= data.draw(st.integers(1, 255))
    with pytest.raises(SegmentDamaged):
        segment.decode(bytes(packed))


def test_every_flipped_bit_of_one_segment_is_detected():
    packed = segment.encode(records("GAM00000000001"))
    for at in range(len(packed)):
        for bit in range(8):
            flipped = packed[:at] + bytes([packed[at] ^ (1 << bit)]) + packed[at + 1 :]
            with pytest.raises(SegmentDamaged):
                segment.decode(flipped)


def test_every_cut_or_extended_segment_is_detected():
    packed = segment.encode(records("GAM00000000001"))
    for damaged in [packed + b"\0", *(packed[:length] for length in range(len(packed)))]:
        with pytest.raises(SegmentDamaged):
            segment.decode(damaged)


def test_error_names_the_segment_and_the_remedy():
    with pytest.raises(SegmentDamaged, match=r"segment cm/GAM00000000001 is damaged: .*; restore it from a copy"):
        segment.decode(b"CMXS", name="cm/GAM00000000001")


def test_bytes_of_a_known_segment_stay_the_same():
    """What is archived must be readable for ever: a change here needs a new schema version."""
    record = StreamRecord("EVT00000000001", "game.opened", 1, "GAM00000000001", {"b": [1, "🐶"], "a": None})
    canonical = (
        '{"data":{"a":null,"b":[1,"🐶"]},"game":"GAM00000000001","id":"EVT00000000001","kind":"game.opened","v":1}'
    )
    body = len(canonical.encode()).to_bytes(4, "big") + canonical.encode()
    packed = segment.encode([record])
    assert packed[:46] == b"CMXS" + (1).to_bytes(2, "big") + (1).to_bytes(4, "big") + len(body).to_bytes(4, "big") + (
        b"EVT00000000001EVT00000000001" + hashlib.sha256(body).digest()[:4]
    )
    assert segment.digest(packed) == hashlib.sha256(body).hexdigest()


@pytest.mark.parametrize(
    ("broken", "sentence"),
    [
        ([], "at least one record"),
        (list(reversed(records("GAM00000000001"))), "does not come after"),
        (records("GAM00000000001", 1) * 2, "does not come after"),
        ([StreamRecord("EVT1", "k", 1, "GAM00000000001", {})], "not a branded id"),
        ([StreamRecord("EVT00000000001", "k", 1, "GAM00000000001", {"x": {1, 2}})], "is not JSON"),
        ([StreamRecord("EVT00000000001", "k", 1, "GAM00000000001", {"x": float("nan")})], "is not JSON"),
        ([StreamRecord("EVT00000000001", "k", 1, "GAM00000000001", {"x": "\ud800"})], "is not JSON"),
    ],
)
def test_what_cannot_be_sealed_is_refused_by_name(broken, sentence):
    with pytest.raises(ValueError, match=sentence):
        segment.encode(broken)


def test_over_long_page_is_refused(monkeypatch):
    monkeypatch.setattr(segment, "MAX_RECORDS_BYTES", 100)
    with pytest.raises(ValueError, match="smaller pages"):
        segment.encode(records("GAM00000000001"))
