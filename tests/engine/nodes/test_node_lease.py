"""Node numbers: never two holders at once, no minting without a lease, dead ones come back."""

from __future__ import annotations

import asyncio
import time
from contextlib import AsyncExitStack
from typing import Any

import pytest

from codemojex.engine import ids
from codemojex.engine.errors import InvalidValue, LeaseLost, OutOfNodes
from codemojex.engine.nodes.node_lease import NODE_COUNT, NodeLease
from codemojex.engine.scripts import ENGINE
from codemojex.engine.transport.connector import Connector
from tests.support.waiting import until


@pytest.fixture
def key(queue: str) -> str:
    return f"{{{queue}}}:nodes"


async def fill(bus: Connector, key: str, but: set[int], until_ms: int) -> None:
    """Lease every number but some to somebody until that server time."""
    pairs = [part for node in range(NODE_COUNT) if node not in but for part in (node, f"{until_ms}:other")]
    await bus.execute("HSET", key, *pairs)


async def now_ms(bus: Connector) -> int:
    seconds, micros = await bus.execute("TIME")
    return int(seconds) * 1000 + int(micros) // 1000


async def test_no_two_holders_share_a_number(bus: Connector, key: str) -> None:
    async with AsyncExitStack() as stack:
        leases = [await stack.enter_async_context(NodeLease(bus, key=key)) for _ in range(60)]
        nodes = [lease.node for lease in leases]
        assert len(set(nodes)) == 60
        assert all(128 <= node < 1008 for node in nodes)
        minted = [lease.minter.mint("JOB") for lease in leases for _ in range(20)]
        assert len(set(minted)) == 1200
        assert [ids.parse(i).node for i in minted[::20]] == nodes


async def test_the_last_free_number_is_found_and_then_the_error_is_clear(bus: Connector, key: str) -> None:
    await fill(bus, key, {777}, await now_ms(bus) + 60_000)
    async with NodeLease(bus, key=key) as lease:
        assert lease.node == 777
        with pytest.raises(OutOfNodes, match="880 node numbers from 128"):
            await NodeLease(bus, key=key).__aenter__()


async def test_a_number_rests_after_its_lease_and_is_free_again_then(bus: Connector, key: str) -> None:
    now = await now_ms(bus)
    await fill(bus, key, {505, 506}, now + 60_000)
    await bus.execute("HSET", key, 505, f"{now - 5_000}:dead", 506, f"{now - 20_000}:dead")
    async with NodeLease(bus, key=key, rest_ms=10_000) as lease:
        assert lease.node == 506
    with pytest.raises(OutOfNodes):
        await NodeLease(bus, key=key, rest_ms=10_000).__aenter__()
    async with NodeLease(bus, key=key, rest_ms=0) as lease:
        assert lease.node in (505, 506)


async def test_a_lease_outlives_its_length_by_renewal(bus: Connector, key: str) -> None:
    async with NodeLease(bus, key=key, lease_ms=600, rest_ms=0) as lease:
        node = lease.node
        started = time.monotonic()
        while time.monotonic() - started < 1.0:
            await asyncio.sleep(0.02)
            lease_end, _, _ = (await bus.execute("HGET", key, node)).decode().partition(":")
            assert int(lease_end) > await now_ms(bus)
        assert lease.node == node


async def test_the_table_of_leases_expires_with_its_last_lease(bus: Connector, key: str) -> None:
    async with NodeLease(bus, key=key, lease_ms=1_000, rest_ms=500):
        assert 0 < await bus.execute("PTTL", key) <= 3_000


async def test_nothing_is_minted_once_the_lease_is_over(start_valkey: Any) -> None:
    server = start_valkey()
    bus = await Connector.connect(server.url, timeout_s=0.5)
    try:
        async with NodeLease(bus, lease_ms=500) as lease:
            minter = lease.minter
            minter.mint("JOB")
            server.pause()
            await until(lambda: lease.lost)
            with pytest.raises(LeaseLost, match="no longer leased"):
                minter.mint("JOB")
            with pytest.raises(LeaseLost):
                _ = lease.node
            server.resume()
            async with asyncio.timeout(15):
                while lease.lost:
                    await asyncio.sleep(0.01)
            minter.mint("JOB")
    finally:
        server.resume()
        await bus.close()


async def test_a_number_that_went_to_somebody_else_is_replaced_by_a_fresh_one(bus: Connector, key: str) -> None:
    seen: list[str] = []
    async with NodeLease(bus, key=key, lease_ms=300, observe=lambda event, data: seen.append(event)) as lease:
        stolen, minter = lease.node, lease.minter
        await bus.execute("HSET", key, stolen, f"{await now_ms(bus) + 60_000}:thief")
        async with asyncio.timeout(15):
            while seen.count("node.leased") < 2:
                await asyncio.sleep(0.01)
        assert lease.node != stolen
        assert ids.parse(minter.mint("JOB")).node == lease.node
    assert "node.lost" in seen
    assert (await bus.execute("HGET", key, stolen)).endswith(b":thief")


async def test_a_lease_given_back_holds_no_more(bus: Connector, key: str) -> None:
    async with NodeLease(bus, key=key) as lease:
        node, minter = lease.node, lease.minter
    assert lease.lost
    with pytest.raises(LeaseLost):
        minter.mint("JOB")
    lease_end, _, token = (await bus.execute("HGET", key, node)).decode().partition(":")
    assert (int(lease_end) <= await now_ms(bus), token) == (True, "")


def test_lengths_out_of_range_are_refused() -> None:
    for options in ({"lease_ms": 5}, {"rest_ms": -1}):
        with pytest.raises(InvalidValue):
            NodeLease(None, **options)  # type: ignore[arg-type]


# the commands by themselves


async def lease(bus: Connector, key: str, first: int, count: int = 4, lease_ms: int = 30_000) -> int:
    return await bus.run(ENGINE.script("node_lease"), [key], ["mine", lease_ms, 10_000, first, count])


async def ends(bus: Connector, key: str, node: int) -> tuple[float, str]:
    """In how many seconds a number's lease ends, and its token."""
    end, _, token = (await bus.execute("HGET", key, node)).decode().partition(":")
    return (int(end) - await now_ms(bus)) / 1000, token


async def test_numbers_are_tried_from_the_first_around_to_the_last(bus: Connector, key: str) -> None:
    assert [await lease(bus, key, first) for first in (2, 2, 2, 2, 2)] == [2, 3, 0, 1, -1]
    left_s, token = await ends(bus, key, 2)
    assert (20 < left_s <= 30, token) == (True, "mine")
    assert 70_000 < await bus.execute("PTTL", key) <= 80_000, "twice the lease and its rest"


async def test_a_number_is_free_when_its_lease_and_its_rest_are_over(bus: Connector, key: str) -> None:
    now = await now_ms(bus)
    for end, node in ((now - 5_000, -1), (now - 10_000, 0), (now - 11_000, 0)):
        await bus.execute("HSET", key, 0, f"{end}:other")
        assert await lease(bus, key, 0, 1) == node, end - now


async def test_only_its_holder_prolongs_or_ends_a_lease(bus: Connector, key: str) -> None:
    async def renew(node: int, token: str, lease_ms: int, rest_ms: int = 10_000) -> int:
        return await bus.run(ENGINE.script("node_renew"), [key], [node, token, lease_ms, rest_ms])

    assert await renew(1, "mine", 30_000) == 0
    assert await lease(bus, key, 1, lease_ms=5_000) == 1
    assert await renew(1, "other", 30_000) == 0
    assert -5 < (await ends(bus, key, 1))[0] <= 5
    await bus.execute("PEXPIRE", key, 50_000)
    assert await renew(1, "mine", 30_000) == 1
    left_s, token = await ends(bus, key, 1)
    assert (20 < left_s <= 30, token) == (True, "mine")
    assert 70_000 < await bus.execute("PTTL", key) <= 80_000
    assert await renew(1, "mine", 20_000) == 1
    assert await bus.execute("PTTL", key) > 65_000, "the table lives as long as its longest lease"
    assert await renew(1, "mine", 0) == 1
    left_s, token = await ends(bus, key, 1)
    assert (-20 < left_s <= 0, token) == (True, "")
    assert await renew(1, "mine", 30_000) == 0
