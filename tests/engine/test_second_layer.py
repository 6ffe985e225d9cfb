"""Versions of the shared layer: 20 digits, more than a number of Lua holds, and the next one is exact."""

from __future__ import annotations

import uuid

import pytest

from codemojex.engine.circuit import Circuit
from codemojex.engine.second_layer import SecondLayer, Written

from .bench import Bench


@pytest.mark.parametrize(
    "version", [0, 7, 10**10 - 2, 10**10 - 1, 26 * 10**10 - 1, 2**53 - 1, 2**53, 2**63 - 2, 10**18 - 1, 3 * 10**18 - 1]
)
async def test_a_change_of_a_version_makes_the_next_one(bench: Bench, version: int) -> None:
    table = uuid.uuid4().hex.translate(str.maketrans("0123456789", "ghijklmnop"))
    layer = SecondLayer(bench.bus, table, Circuit(), 5.0)
    assert await layer.write("a", "put", "V", version=version, ttl_s=60, payload=b"x") == Written(version, None)
    assert await layer.write("a", "cas", "V", expected=version, ttl_s=60, payload=b"y") == Written(version + 1, None)
    frame = (await layer.read("a")).frame
    assert frame is not None
    assert (frame.version, frame.payload) == (version + 1, b"y")
