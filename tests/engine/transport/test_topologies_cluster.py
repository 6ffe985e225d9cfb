"""A cluster: queues live on different nodes, slots move under running workers, a node dies; nothing else changes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest

from codemojex.engine import keyspace
from codemojex.engine.errors import ServerError, Unavailable, UnknownOutcome, VersionFence
from codemojex.engine.keyspace import VERSION_KEY, WIRE_VERSION
from codemojex.engine.lanes import lanes
from codemojex.engine.scripts import Library
from codemojex.engine.transport.connector import Connector
from tests.engine.bench import Bench, lane
from tests.engine.load import load
from tests.support.topologies import Cluster, ClusterNode, queue_on, slot_of
from tests.support.waiting import until

PROBES = Library("tests.engine")
SOON_S = 10.0  # of which the cluster takes about three to decide


@pytest.fixture
async def cluster() -> AsyncIterator[Cluster]:
    cluster = Cluster(3)
    try:
        yield await cluster.start()
    finally:
        cluster.close()


async def test_queues_on_different_nodes_are_worked_through_one_connector(
    cluster: Cluster, connect: Callable[..., object]
) -> None:
    bus = await connect(cluster.url)
    queues = [queue_on(cluster, node) for node in cluster.nodes]
    async with load(bus, queues[0]) as one, load(bus, queues[1]) as two, load(bus, queues[2]) as three:
        for work in (one, two, three):
            await work.handles_more(30)
            done = await work.finish()
            assert set(done) == work.admitted == set(work.handled)
            assert not work.faults
    for node, queue in zip(cluster.nodes, queues, strict=True):
        assert await node.do("CLUSTER", "COUNTKEYSINSLOT", slot_of(queue)) > 0


async def test_lanes_that_lost_their_ring_heal_on_every_node(cluster: Cluster, connect: Callable[..., object]) -> None:
    bus = await connect(cluster.url)
    for node in cluster.nodes:
        bench = Bench(bus, queue_on(cluster, node))
        await bench.fill([lane(i) for i in range(300)])
        await bench.raw("DEL", "ring")
        for _ in range(10):
            await bench.raw("HDEL", "tended", "at")
            await lanes.tend(bus, bench.queue)
        assert len(await bench.ring()) == 300


async def test_the_fence_is_read_where_it_lives_by_every_socket(
    cluster: Cluster, connect: Callable[..., object]
) -> None:
    bus = await connect(cluster.url)
    home = cluster.owner(keyspace.slot(VERSION_KEY))
    assert await home.do("GET", VERSION_KEY) == WIRE_VERSION.encode()
    assert await bus.execute("GET", VERSION_KEY) == WIRE_VERSION.encode()
    await home.do("SET", VERSION_KEY, "echomq:2.4.2")
    for node in cluster.nodes:  # each of them, also those that do not have the key
        with pytest.raises(VersionFence, match=r"2\.4\.2"):
            alone = await connect(f"cluster://{node.address}")
            await alone.execute("GET", f"{{{queue_on(cluster, node)}}}")


async def test_a_pipeline_over_several_nodes_answers_in_order_with_errors_in_place(
    cluster: Cluster, connect: Callable[..., object]
) -> None:
    bus = await connect(cluster.url)
    keys = [f"{{{queue_on(cluster, node)}}}" for node in cluster.nodes] * 2
    await bus.execute("SET", keys[1], "text")
    replies = await bus.pipeline([("LPUSH", key, i) for i, key in enumerate(keys)])
    assert [replies[i] for i in (0, 2, 3, 5)] == [1, 1, 2, 2]
    assert all(isinstance(replies[i], ServerError) for i in (1, 4))
    probe = PROBES.script("mint_probe")
    minted = await bus.run_many(probe, [([key + "s"], [1008, 1, "1"]) for key in keys])
    assert [len(reply) for reply in minted] == [1] * 6  # every node was taught


async def test_a_live_queue_moves_to_another_node_and_nobody_notices(
    cluster: Cluster, connect: Callable[..., object]
) -> None:
    bus = await connect(cluster.url)
    queue = queue_on(cluster, cluster.nodes[0])
    async with load(bus, queue) as work:
        await work.handles_more(50)
        await cluster.move_at_once(slot_of(queue), cluster.nodes[2])
        await work.handles_more(50)
        done = await work.finish()
    assert set(done) == work.admitted == set(work.handled)
    assert set(work.handled.values()) == {1}
    assert not work.unknown
    assert not work.refused
    assert await cluster.nodes[2].do("CLUSTER", "COUNTKEYSINSLOT", slot_of(queue)) > 0


async def test_while_a_slot_moves_key_by_key_its_queue_rests_and_no_half_of_it_is_worked(
    cluster: Cluster, connect: Callable[..., object]
) -> None:
    bus = await connect(cluster.url, timeout_s=1.0)
    queue = queue_on(cluster, cluster.nodes[0])
    slot, target = slot_of(queue), cluster.nodes[1]
    async with load(bus, queue, every_s=0.02) as work:
        await work.handles_more(20)
        await work.admit(work.bench.job(delay_ms=2_000))  # something stays behind for sure
        await cluster.begin_move(slot, target)
        before = len(work.refused)
        await until(lambda: len(work.refused) > before, "an admission gave up while the slot lay open")
        assert await target.do("CLUSTER", "COUNTKEYSINSLOT", slot) == 0, "no second half of the queue begins there"
        while await cluster.move_keys(slot, target, limit=3):
            await asyncio.sleep(0.05)
        await cluster.finish_move(slot, target)
        await work.handles_more(50, SOON_S)
        done = await work.finish()
    assert set(done) == work.admitted
    assert not work.unknown
    assert await cluster.nodes[0].do("CLUSTER", "COUNTKEYSINSLOT", slot) == 0


async def test_a_command_waits_for_an_open_slot_and_says_so_when_it_takes_too_long(
    cluster: Cluster, connect: Callable[..., object]
) -> None:
    bus = await connect(cluster.url, timeout_s=1.0)
    queue = queue_on(cluster, cluster.nodes[0])
    slot, target = slot_of(queue), cluster.nodes[1]
    await cluster.begin_move(slot, target)
    with pytest.raises(Unavailable, match=r"ASK .* is being moved"):
        await bus.execute("GET", f"{{{queue}}}")
    patient = await connect(cluster.url, timeout_s=5.0)
    waiting = asyncio.create_task(patient.execute("INCR", f"{{{queue}}}"))
    await asyncio.sleep(0.1)
    await cluster.finish_move(slot, target)
    assert await waiting == 1
    assert await target.do("GET", f"{{{queue}}}") == b"1"


async def test_a_lost_answer_of_a_node_is_an_unknown_outcome_and_nothing_is_sent_twice(
    cluster: Cluster, connect: Callable[..., object]
) -> None:
    bus = await connect(cluster.url, timeout_s=1.0)
    keys = [f"{{{queue_on(cluster, node)}}}" for node in cluster.nodes]
    await bus.pipeline([("SET", key, 0) for key in keys])
    cluster.nodes[0].pause()
    with pytest.raises(UnknownOutcome):
        await bus.execute("INCR", keys[0])
    assert await bus.execute("INCR", keys[2]) == 1  # the others are not to wait
    with pytest.raises(Unavailable):
        await bus.execute("INCR", keys[0])
    replies = await bus.pipeline([("INCR", key) for key in keys])
    assert isinstance(replies[0], Unavailable)
    assert replies[2] == 2
    cluster.nodes[0].resume()
    assert await bus.execute("GET", keys[0]) == b"1"


async def test_a_dead_primary_is_replaced_and_queues_elsewhere_go_on_meanwhile() -> None:
    cluster = Cluster(3, replicas=1)
    bus: Connector | None = None
    try:
        await cluster.start()
        bus = await Connector.connect(cluster.url, timeout_s=1.0)
        hit, spared = queue_on(cluster, cluster.nodes[0]), queue_on(cluster, cluster.nodes[2])
        async with load(bus, hit, every_s=0.02) as work, load(bus, spared, every_s=0.02) as other:
            await work.handles_more(20)
            await other.handles_more(20)
            admitted = set(work.admitted)
            written, confirmed_by = await bus.pipeline([("SET", f"mark:{{{hit}}}", 1), ("WAIT", 1, 2000)])
            assert (written, confirmed_by) == (b"OK", 1), "the replica has everything so far"
            cluster.nodes[0].kill()
            await other.handles_more(20, 5)
            assert not await _is_primary(cluster.replicas[0]), "the others went on during the outage"
            await until(lambda: _is_primary(cluster.replicas[0]), "the replica was promoted")
            await work.handles_more(30, SOON_S)
            done = await work.finish(may_miss=work.admitted - admitted)
            await other.finish()
        assert not admitted - set(done)
        assert len(work.admitted - set(done)) < 20
        assert not other.unknown
        assert not other.refused
    finally:
        if bus is not None:
            await bus.close()
        cluster.close()


async def test_a_planned_failover_of_a_node_loses_no_job() -> None:
    cluster = Cluster(3, replicas=1)
    bus: Connector | None = None
    try:
        await cluster.start()
        bus = await Connector.connect(cluster.url, timeout_s=2.0)
        async with load(bus, queue_on(cluster, cluster.nodes[0]), every_s=0.02) as work:
            await work.handles_more(20)
            await cluster.replicas[0].do("CLUSTER", "FAILOVER")
            await until(lambda: _is_primary(cluster.replicas[0]), "the replica was promoted")
            await work.handles_more(20, SOON_S)
            done = await work.finish()
        assert set(done) >= work.admitted
    finally:
        if bus is not None:
            await bus.close()
        cluster.close()


async def test_a_server_identity_is_that_of_the_node_that_serves_the_key(
    cluster: Cluster, connect: Callable[..., object]
) -> None:
    bus = await connect(cluster.url)
    keys = [f"{{{queue_on(cluster, node)}}}" for node in cluster.nodes]
    assert len({await bus.identity(key) for key in keys}) == 3
    assert await bus.identity(keys[0]) == await bus.identity(keys[0])


async def test_lanes_and_wakes_work_across_connections_of_a_cluster(
    cluster: Cluster, connect: Callable[..., object]
) -> None:
    bus = await connect(cluster.url)
    queue = queue_on(cluster, cluster.nodes[1])
    async with load(bus, queue, every_s=30, beat_ms=60_000) as work:
        for home in (lane(1), None):
            job = work.bench.job(lane=home)
            await work.admit(job)  # and its worker is woken, long before its next look
            await until(lambda job=job: job.id in work.handled, "the job is worked")
        work.producer = None
        await work.finish()


async def _is_primary(node: ClusterNode) -> bool:
    return (await node.do("ROLE"))[0] == b"master"
