"""A flow over queues on different servers of a cluster, and a listener there: one code path for every topology."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from codemojex.engine.flows import flows
from codemojex.engine.jobs import pubsub
from codemojex.engine.jobs.jobs import Duplicate
from codemojex.engine.jobs.outcome import Complete
from codemojex.engine.transport.connector import Connector
from tests.engine.bench import Bench
from tests.engine.flow_bench import add, die, end, node, outbox, state, sweep
from tests.support.topologies import Cluster, queue_on


@pytest.fixture
async def benches() -> AsyncIterator[list[Bench]]:
    """A queue on each of three servers."""
    cluster = Cluster(3)
    try:
        await cluster.start()
        bus = await Connector.connect(cluster.url)
        yield [Bench(bus, queue_on(cluster, node)) for node in cluster.nodes]
        await bus.close()
    finally:
        cluster.close()


async def test_a_flow_over_three_servers_completes_upward_and_a_death_climbs(benches: list[Bench]) -> None:
    top, middle, low = benches
    for fate in ("complete", "die"):
        leaf = node(top, queue=low.queue)
        branch = node(top, leaf, queue=middle.queue)
        flow = node(top, branch)
        await add(top, flow)
        assert await flows.add(top.bus, top.queue, flow) == Duplicate(flow.job.id)
        await (end(low, leaf.job.id, Complete(b"r")) if fate == "complete" else die(low, leaf.job.id))
        assert await sweep(low) == 1
        if fate == "complete":
            await end(middle, branch.job.id)
        assert await sweep(middle) == 1
        assert await state(top, flow.job.id) == ("pending" if fate == "complete" else "dead")
        for place in benches:
            assert await outbox(place) == []


async def test_a_listener_hears_every_queue_of_a_cluster(benches: list[Bench]) -> None:
    for bench in benches:
        async with pubsub.subscribe(bench.bus, bench.queue) as heard:
            job_id = bench.id()
            await pubsub.publish(bench.bus, bench.queue, "completed", job_id)
            assert (await anext(heard)).job == job_id
