"""Numbers for engines of other makes: our leases stay away from them, by default and by reservation."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

import pytest

from codemojex.engine import ids
from codemojex.engine.errors import InvalidValue, OutOfNodes
from codemojex.engine.nodes import reservations
from codemojex.engine.nodes.node_lease import NodeLease
from codemojex.engine.transport.connector import Connector

UNCONFIGURED_PEER = 68


@pytest.fixture
def key(queue: str) -> str:
    return f"{{{queue}}}:nodes"


async def test_no_lease_of_ours_has_the_number_of_a_peer_that_nobody_configured(bus: Connector, key: str) -> None:
    assert UNCONFIGURED_PEER not in ids.LEASED_NODES
    async with AsyncExitStack() as stack:
        leases = [NodeLease(bus, key=key) for _ in range(len(ids.LEASED_NODES))]
        for start in range(0, len(leases), 100):
            await asyncio.gather(*(stack.enter_async_context(lease) for lease in leases[start : start + 100]))
        assert {lease.node for lease in leases} == set(ids.LEASED_NODES), "and all the others can be had"


async def test_a_reserved_number_is_leased_to_nobody(bus: Connector, key: str) -> None:
    mine = range(200, 203)
    assert await reservations.reserve(bus, range(200, 202), "the shop", key=key) == []
    async with NodeLease(bus, numbers=mine, key=key) as lease:
        assert lease.node == 202
        with pytest.raises(OutOfNodes, match="reserved"):
            await NodeLease(bus, numbers=mine, key=key).__aenter__()
    assert await reservations.reserved(bus, key=key) == {200: "the shop", 201: "the shop"}
    assert await reservations.release(bus, range(201, 300), key=key) == 1
    async with NodeLease(bus, numbers=mine, key=key) as lease:
        assert lease.node == 201


async def test_a_holder_leaves_a_number_that_is_reserved_and_mints_on(bus: Connector, key: str) -> None:
    async with NodeLease(bus, numbers=range(300, 310), lease_ms=600, key=key) as lease:
        number = lease.node
        held = await reservations.reserve(bus, range(number, number + 1), key=key)
        assert [holder.node for holder in held] == [number]
        assert 0 < held[0].ends_in_ms <= 600
        async with asyncio.timeout(15):
            while lease.lost or lease.node == number:
                await asyncio.sleep(0.01)
        assert ids.parse(lease.minter.mint("JOB")).node != number
    assert number in {holder.node for holder in await reservations.leased(bus, key=key)}


@pytest.mark.parametrize("text", ["", "x", "5-", "9-3", "-1", "1000-1008", "2000"])
def test_what_is_no_run_of_numbers_is_refused(text: str) -> None:
    with pytest.raises(InvalidValue):
        ids.node_numbers(text)


def test_a_run_of_numbers_is_read() -> None:
    assert (ids.node_numbers("68"), ids.node_numbers(" 300-399 ")) == (range(68, 69), range(300, 400))
    for bad in (range(5, 1), range(0, 9, 2), range(-1, 4), range(1000, 1009)):
        with pytest.raises(InvalidValue):
            ids.node_numbers(bad)
