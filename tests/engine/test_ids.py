"""Branded ids against the published vectors, and the promises of minting."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codemojex.engine import ids
from codemojex.engine.clock import ManualClock
from codemojex.engine.errors import InvalidId, InvalidValue
from codemojex.engine.ids import Minter

VECTORS: dict[str, Any] = json.loads((Path(__file__).parents[1] / "vectors" / "branded_ids.json").read_text())
SNOWFLAKES = st.integers(0, 2**63 - 1)


@pytest.mark.parametrize("vector", VECTORS["valid"], ids=lambda v: v["id"])
def test_every_valid_vector(vector: dict[str, Any]) -> None:
    parsed = ids.parse(vector["id"])
    assert (parsed.namespace, parsed.snowflake) == (vector["namespace"], vector["snowflake"])
    assert (parsed.unix_ms, parsed.node, parsed.seq) == (vector["unix_ms"], vector["node"], vector["seq"])
    assert parsed.stream_id == vector["stream_id"]
    assert ids.placement(vector["id"]) == vector["placement"]
    assert ids.encode(vector["namespace"], vector["snowflake"]) == vector["id"]
    assert ids.from_stream_id(vector["namespace"], vector["stream_id"]) == vector["id"]
    assert ids.is_valid(vector["id"])
    assert ids.require(vector["id"], "XYZ", vector["namespace"]) == vector["id"]


@pytest.mark.parametrize("vector", VECTORS["invalid"], ids=lambda v: v["id"])
def test_every_invalid_vector_is_refused_for_its_reason(vector: dict[str, str]) -> None:
    for refuse in (ids.parse, ids.require):
        with pytest.raises(InvalidId) as caught:
            refuse(vector["id"])
        assert caught.value.reason in vector["why"].split(" ")[0].split("-or-")
    assert not ids.is_valid(vector["id"])


@pytest.mark.parametrize(
    "bad", ["", "ÀÀÀ0KHTOWnGLuC", "USR0KHTOWnGLu٣", "USR0KHTOWnGLu\n", "USR 0KHTOWnGLu", "ÄUSR0KHTOWnGL"]
)
def test_letters_outside_ascii_are_refused(bad: str) -> None:
    assert not ids.is_valid(bad)
    with pytest.raises(InvalidId):
        ids.parse(bad)


@pytest.mark.parametrize(
    ("number", "digits"),
    [
        (0, "00000000000"),
        (61, "0000000000z"),
        (62, "00000000010"),
        (3844, "00000000100"),
        (12345678901234, "0003VLrOWLi"),
        (9007199254740991, "00fFgnDxSe7"),
        (271644782957166592, "0K48QjihpC4"),
        (2**63 - 1, "AzL8n0Y58m7"),
    ],
)
def test_base62(number: int, digits: str) -> None:
    assert ids.base62(number) == digits


@pytest.mark.parametrize(
    ("number", "placement"),
    [
        (0, 0),
        (1, 2466077478),
        (274557032793636864, 234878118),
        (320636799581945856, 3694611501),
        (2**63 - 1, 2186628710),
        (209715201620567, 2510208562),
        (5847939110438719485, 2903169986),
        (8650000486196437660, 2903169986),
    ],
)
def test_placement(number: int, placement: int) -> None:
    assert ids.hash32(number) == placement


def test_the_epoch_and_the_alphabet() -> None:
    assert VECTORS["epoch_ms"] == ids.EPOCH_MS
    assert [ids.base62(n)[-1] for n in range(62)] == list(VECTORS["alphabet"])
    assert ids.min_for(1740830400500) == 154196038909952000


@pytest.mark.parametrize("snowflake", [-1, 2**63])
def test_a_number_out_of_range_is_refused(snowflake: int) -> None:
    with pytest.raises(InvalidValue, match="range"):
        ids.encode("USR", snowflake)


@pytest.mark.parametrize("namespace", ["usr", "US", "USRS", "U1R", "ÄÖÜ", ""])
def test_a_namespace_is_three_capitals(namespace: str) -> None:
    with pytest.raises(InvalidId, match="three capital"):
        ids.encode(namespace, 1)


def test_another_kind_is_refused_with_the_kinds_that_would_do() -> None:
    with pytest.raises(InvalidId, match="JOB or EVT") as caught:
        ids.require("USR0KHTOWnGLuC", "JOB", "EVT")
    assert caught.value.reason == "kind"


@given(SNOWFLAKES, SNOWFLAKES)
def test_order_of_bytes_is_order_of_numbers_is_order_of_stream_places(a: int, b: int) -> None:
    left, right = ids.parse(ids.encode("EVT", a)), ids.parse(ids.encode("EVT", b))
    assert (ids.base62(a).encode() < ids.base62(b).encode()) == (a < b)
    assert ((left.unix_ms, left.tail) < (right.unix_ms, right.tail)) == (a < b)


@given(SNOWFLAKES)
def test_every_number_survives_the_round_trip(snowflake: int) -> None:
    branded = ids.encode("JOB", snowflake)
    assert len(branded) == 14
    assert ids.parse(branded).snowflake == snowflake
    assert ids.from_stream_id("JOB", ids.parse(branded).stream_id) == branded
    assert ids.parse(ids.rebrand(branded, "GSS")) == ids.Parsed("GSS", snowflake)


@given(st.text(max_size=20))
def test_is_valid_and_parse_agree_on_any_text(text: str) -> None:
    try:
        ids.parse(text)
    except InvalidId:
        assert not ids.is_valid(text)
    else:
        assert ids.is_valid(text)


@given(st.text(alphabet=st.sampled_from("AZaz09Lm*é"), min_size=14, max_size=14))
def test_is_valid_and_parse_agree_on_near_misses(text: str) -> None:
    try:
        ids.parse(text)
    except InvalidId:
        assert not ids.is_valid(text)
    else:
        assert ids.is_valid(text)


def test_a_derived_id_is_fixed_by_its_name() -> None:
    assert ids.derive("CNV", "-100:0") == ids.derive("CNV", "-100:0") != ids.derive("CNV", "-100:1")
    assert ids.is_valid(ids.derive("CHT", "привет"))


def test_a_mint_carries_time_node_and_sequence() -> None:
    clock = ManualClock(1_781_000_000_010)
    mint = Minter(7, clock)
    assert mint.mint("EVT") == "EVT0NpsIRaFoki"
    assert ids.parse(mint.mint("EVT")).seq == 1
    clock.advance(1)
    assert ids.parse(mint.mint("JOB")) == ids.Parsed("JOB", ids.min_for(1_781_000_000_011) | 7 << 12)


def test_mints_increase_when_the_clock_steps_back() -> None:
    clock = ManualClock(1_781_000_000_000)
    mint = Minter(3, clock)
    rng = random.Random(4)
    minted = []
    for _ in range(3_000):
        clock.advance(rng.randrange(-50, 52))
        minted.append(mint.mint("JOB"))
    assert minted == sorted(set(minted))


def test_more_than_4096_mints_in_a_millisecond_run_into_the_next() -> None:
    mint = Minter(3, ManualClock(1_781_000_000_000))
    minted = [mint.mint("JOB") for _ in range(10_000)]
    assert minted == sorted(set(minted))
    assert [ids.parse(minted[n]).unix_ms - 1_781_000_000_000 for n in (0, 4095, 4096, 8192)] == [0, 0, 1, 2]
    assert {ids.parse(i).node for i in minted} == {3}


def test_after_observing_a_later_instant_mints_lie_beyond_it() -> None:
    mint = Minter(3, ManualClock(1_781_000_000_000))
    mint.observe(1_781_000_005_000)
    assert ids.parse(mint.mint("EVT")).unix_ms == 1_781_000_005_001
    mint.observe(1_781_000_000_000)
    assert ids.parse(mint.mint("EVT")).unix_ms == 1_781_000_005_001


@pytest.mark.parametrize("node", [-1, 1024])
def test_a_node_out_of_range_is_refused(node: int) -> None:
    with pytest.raises(InvalidValue, match="node"):
        Minter(node)
