"""In a cluster that is well, what concerns a queue is asked of, told by and heard from the queue's own node."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from codemojex.engine import keyspace
from codemojex.engine.errors import Unavailable
from codemojex.engine.ids import Minter
from codemojex.engine.jobs import pubsub
from codemojex.engine.keyspace import VERSION_KEY
from codemojex.engine.protocol.conformance import runner, table
from codemojex.engine.repeats import repeats
from codemojex.engine.repeats.recurrence import cron
from codemojex.engine.repeats.repeats import Repeat
from tests.support.topologies import Cluster, queue_on


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """One for all: nothing here moves a slot or ends a node."""
    cluster = Cluster(3)
    try:
        yield asyncio.run(cluster.start())
    finally:
        cluster.close()


# What asks a server something that no key says: its clock, its counters, its scripts, its sockets.
OF_SERVERS = "stale,resubscribe,events,lock_extend,ours.flat_cost,ours.script_flush"


async def test_the_scenarios_of_conformance_ask_the_node_of_their_queue(cluster: Cluster) -> None:
    chosen = runner.choose(table.SCENARIOS, OF_SERVERS)
    results = [result async for result in runner.run(cluster.url, chosen)]
    assert len(results) == len(chosen) >= 6
    assert not [f"{result.name}: {result.failure}" for result in results if result.failure]


async def test_a_node_of_a_cluster_is_not_taken_for_a_single_server(
    cluster: Cluster, connect: Callable[..., Any]
) -> None:
    version_at = cluster.owner(keyspace.slot(VERSION_KEY))
    other = next(node for node in cluster.nodes if node is not version_at)
    for node in (version_at, other):
        with pytest.raises(Unavailable, match=r"cluster://host:port"):
            bus = await connect(f"valkey://{node.address}")
            for owner in cluster.nodes:
                await bus.execute("GET", keyspace.of(queue_on(cluster, owner)).key("wake"))


async def test_a_listener_listens_where_its_queues_publishers_are(
    cluster: Cluster, connect: Callable[..., Any]
) -> None:
    bus = await connect(cluster.url)
    for queue in [queue_on(cluster, node) for node in cluster.nodes for _ in range(2)]:
        async with pubsub.subscribe(bus, queue):
            assert await pubsub.publish(bus, queue, "said", Minter(1).mint("JOB")) == 1


async def test_a_repeat_takes_the_time_of_its_own_node(cluster: Cluster, connect: Callable[..., Any]) -> None:
    bus = await connect(cluster.url)
    queue = queue_on(cluster, cluster.nodes[2])
    for node in cluster.nodes:
        await node.do("CONFIG", "RESETSTAT")
    await repeats.register(bus, queue, Repeat("daily", cron("0 4 * * *", "UTC"), b"x"))
    await repeats.advance(bus, queue, "daily")
    for node in cluster.nodes:
        asked = b"cmdstat_time" in await node.do("INFO", "commandstats")
        assert asked is (node is cluster.nodes[2])


async def test_the_sockets_of_a_cluster_are_told_by_node_and_only_the_keys_own_is_renewed(
    cluster: Cluster, connect: Callable[..., Any]
) -> None:
    told: list[object] = []

    def observe(name: str, data: dict[str, object]) -> None:
        if name == "connector.connection" and data["use"] == "commands":
            told.append(data["server"])

    bus = await connect(cluster.url, observe=observe)
    keys = [keyspace.of(queue_on(cluster, node)).key("wake") for node in cluster.nodes]
    for key in keys:
        await bus.execute("LLEN", key)
    assert set(told) == {node.address for node in cluster.nodes}
    told.clear()
    await bus.renew(keys[1])
    for key in keys:
        await bus.execute("LLEN", key)
    assert told == [cluster.nodes[1].address]
