"""Our own scenarios, flows that count each child once: section 7.4."""

from __future__ import annotations

import asyncio

from codemojex.engine.flows import flows
from codemojex.engine.flows.flows import Added, Flow
from codemojex.engine.jobs import claims
from codemojex.engine.jobs.outcome import Complete
from codemojex.engine.jobs.settlement import Settled
from codemojex.engine.maintenance import recovery
from codemojex.engine.protocol.conformance.fixture import LEASE_MS, ScenarioFixture, equal, that
from codemojex.engine.protocol.conformance.scenarios.flows import end, new_child, new_parent


async def flow_again(stage: ScenarioFixture) -> None:
    """Adding a flow again changes nothing, also when it ran in part; a flow without children waits for nobody."""
    flow = new_parent(stage, new_child(stage), new_child(stage))
    await flows.add(stage.bus, stage.queue, flow)
    (child,) = await claims.claim_batch(stage.bus, stage.queue, 1, LEASE_MS)
    await stage.settle(child)
    before = (await stage.keys(), await stage.row(flow.job.id), await stage.scores("pending"))
    that(not isinstance(await flows.add(stage.bus, stage.queue, flow), Added), "the second time is a duplicate")
    after = (await stage.keys(), await stage.row(flow.job.id), await stage.scores("pending"))
    equal(after, before, "keys, row and backlog")
    alone = Flow(stage.job())
    await flows.add(stage.bus, stage.queue, alone)
    that(alone.job.id in await stage.scores("pending"), "a flow without children is released at once")
    await stage.sound()


async def flow_any_set(stage: ScenarioFixture) -> None:
    """A child signals its parent on its end whatever set it stood in: after a lapsed lease, and when it expires."""
    flow = new_parent(stage, new_child(stage), Flow(stage.job(expires_at_ms=1), ignore_failure=True))
    await flows.add(stage.bus, stage.queue, flow)
    (held,) = (await claims.claim_many(stage.bus, stage.queue, 2, LEASE_MS)).jobs
    equal(await stage.text(f"job:{flow.job.id}:dependencies"), "1", "the counter after the expired child")
    await stage.lapse(held.id)
    await recovery.recover(stage.bus, stage.queue)
    equal(await stage.settle(held), Settled("completed"), "the late holder's completion")
    equal(await stage.scores("pending"), {flow.job.id: 0.0}, "the parent is released")
    await stage.sound()


async def flow_two_pumps(stage: ScenarioFixture) -> None:
    """Several pumps on one outbox lose no entry and count none twice."""
    other = stage.sibling("child")
    tree = [new_parent(stage, *(new_child(stage, other.queue) for _ in range(5))) for _ in range(6)]
    for flow in tree:
        await flows.add(stage.bus, stage.queue, flow)
    await end(other, Complete(), *(child.job.id for flow in tree for child in flow.children))
    while await other.raw("LLEN", "flow:outbox"):
        pumps = (flows.deliver(stage.bus, other.queue, limit) for limit in (3, 7, 30, 7))
        await asyncio.gather(*pumps)
    equal(await stage.scores("pending"), {flow.job.id: 0.0 for flow in tree}, "the released parents")
    for flow in tree:
        values = await flows.children_values(stage.bus, stage.queue, flow.job.id)
        equal(set(values), {child.job.id for child in flow.children}, "the children that a parent heard of")
    await stage.sound()
