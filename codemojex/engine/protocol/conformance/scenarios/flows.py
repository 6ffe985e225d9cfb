"""Scenarios of flows: parents that wait for children, in one queue and over several."""

from __future__ import annotations

from codemojex.engine.flows import flows
from codemojex.engine.flows.flows import Added, Flow
from codemojex.engine.inspection import admin
from codemojex.engine.jobs import claims
from codemojex.engine.jobs.jobs import AdmissionRefused, NewJob
from codemojex.engine.jobs.outcome import Complete, Discard
from codemojex.engine.jobs.settlement import Gone, Settled
from codemojex.engine.protocol.conformance.fixture import LEASE_MS, ScenarioFixture, equal, that


def new_child(stage: ScenarioFixture, queue: str | None = None, *, ignore: bool = False) -> Flow:
    """A fresh child."""
    return Flow(stage.job(), queue=queue, ignore_failure=ignore)


def new_parent(stage: ScenarioFixture, *children: Flow, queue: str | None = None, ignore: bool = False) -> Flow:
    """A parent, minted before it is known what its children are called."""
    return Flow(stage.job(b"parent"), children, queue=queue, ignore_failure=ignore)


async def end(stage: ScenarioFixture, outcome: Complete | Discard, *job_ids: str) -> None:
    """Claim the jobs, which must be what waits, and end them all in the same way."""
    held = {job.id: job for job in await claims.claim_batch(stage.bus, stage.queue, len(job_ids), LEASE_MS)}
    equal(set(held), set(job_ids), "the claimed jobs")
    for job_id in job_ids:
        await stage.settle(held[job_id], outcome)


async def _state(stage: ScenarioFixture, job_id: str) -> str:
    return await admin.get_job_state(stage.bus, stage.queue, job_id)


async def flow_add(stage: ScenarioFixture) -> None:
    """A flow is N+1 different jobs: children claimable, the parent held with counter N, in no set."""
    flow = new_parent(stage, *(new_child(stage) for _ in range(3)))
    parent, kids = flow.job.id, [child.job.id for child in flow.children]
    added = await flows.add(stage.bus, stage.queue, flow)
    shape = (added.id, [child.id for child in added.children]) if isinstance(added, Added) else added
    equal(shape, (parent, kids), "the ids in the shape of the tree")
    equal(await stage.text(f"job:{parent}:dependencies"), "3", "the counter, a plain number")
    equal((await stage.row(parent))["state"], "awaiting_children", "the parent's state")
    row = await stage.row(kids[0])
    equal((row["parent"], row["parent_policy"], row.get("parent_queue")), (parent, "fp", None), "a child's link")
    equal(list(await stage.scores("pending")), sorted(kids), "the backlog: children only")
    for other in ("active", "schedule", "dead"):
        equal(await stage.kind(other), "none", other)
    equal(await _state(stage, parent), "awaiting_children", "where the parent is")
    await stage.sound()


async def flow_fanin(stage: ScenarioFixture) -> None:
    """The parent is claimable after its last child and not before; a child that completes twice counts once."""
    flow = new_parent(stage, new_child(stage), new_child(stage))
    await flows.add(stage.bus, stage.queue, flow)
    first, second = await stage.take(2)
    equal(await stage.settle(first), Settled("completed"), "the first child")
    equal(await stage.settle(first), Gone(), "the first child again")
    equal(await stage.text(f"job:{flow.job.id}:dependencies"), "1", "the counter after one child, twice")
    equal(await claims.claim(stage.bus, stage.queue, LEASE_MS), None, "a claim before the last child")
    await stage.settle(second)
    equal(await stage.scores("pending"), {flow.job.id: 0.0}, "the backlog after the last child")
    (parent,) = await stage.take()
    equal((parent.id, parent.token, parent.payload), (flow.job.id, "1", b"parent"), "the parent")
    await stage.settle(parent)
    await stage.sound()


async def flow_children_values(stage: ScenarioFixture) -> None:
    """Results stand by child id, the id itself where none was given; the counter goes down; reading changes nothing."""
    flow = new_parent(stage, new_child(stage), new_child(stage))
    parent = flow.job.id
    await flows.add(stage.bus, stage.queue, flow)
    first, second = await stage.take(2)
    equal(await flows.dependencies(stage.bus, stage.queue, parent), 2, "the counter")
    await stage.settle(first, Complete(b"\x00 result"))
    await stage.settle(second)
    wanted = {first.id: b"\x00 result", second.id: second.id.encode()}
    for _ in range(2):
        values = await flows.children_values(stage.bus, stage.queue, parent)
        equal(dict(values), wanted, "the results")
    raw = await stage.raw("HGETALL", f"job:{parent}:processed")
    equal(raw, {child.encode(): value for child, value in wanted.items()}, "the results, raw")
    equal(await flows.dependencies(stage.bus, stage.queue, parent), 0, "the counter at the end")


async def flow_cross_queue(stage: ScenarioFixture) -> None:
    """A child elsewhere leaves its completion in its queue's outbox; delivery releases the parent once."""
    other = stage.sibling("child")
    flow = new_parent(stage, new_child(stage, other.queue))
    parent, kid = flow.job.id, flow.children[0].job.id
    await flows.add(stage.bus, stage.queue, flow)
    equal((await other.row(kid))["parent_queue"], stage.queue, "the child's link")
    (job,) = await other.take()
    await other.settle(job, Complete(b"a\0b"))
    entry = b"\0".join([stage.queue.encode(), parent.encode(), kid.encode(), b"a\0b"])
    equal(await other.raw("LRANGE", "flow:outbox", 0, -1), [entry], "the outbox: queue, parent, child, result")
    equal(await _state(stage, parent), "awaiting_children", "the parent before delivery")
    equal((await flows.deliver(stage.bus, other.queue)).entries, 1, "delivered entries")
    equal(await other.kind("flow:outbox"), "none", "the outbox after delivery")
    equal(await stage.scores("pending"), {parent: 0.0}, "the parent's queue")
    equal(dict(await flows.children_values(stage.bus, stage.queue, parent)), {kid: b"a\0b"}, "the results")
    await other.raw("RPUSH", "flow:outbox", entry)
    await flows.deliver(stage.bus, other.queue)
    equal(await stage.text(f"job:{parent}:dependencies"), "0", "the counter after a second delivery")
    equal(await stage.scores("pending"), {parent: 0.0}, "the parent's queue after a second delivery")


async def flow_fail_parent(stage: ScenarioFixture) -> None:
    """A dead child fails its parent: at once in the same queue, at delivery from another one; once only."""
    other = stage.sibling("child")
    near, far = new_parent(stage, new_child(stage), new_child(stage)), new_parent(stage, new_child(stage, other.queue))
    for flow in (near, far):
        await flows.add(stage.bus, stage.queue, flow)
    dying, living = await stage.take(2)
    await stage.settle(dying, Discard("broken"))
    row = await stage.row(near.job.id)
    equal(row["state"], "dead", "the near parent")
    equal(await stage.hash(f"job:{near.job.id}:failed"), {dying.id: "broken"}, "its record of failures")
    equal(await stage.scores("dead"), dict.fromkeys(sorted([near.job.id, dying.id]), 0.0), "the dead letters")
    await stage.settle(living)
    equal(await _state(stage, near.job.id), "dead", "the near parent after its other child completed")
    kid = far.children[0].job.id
    await end(other, Discard("far away"), kid)
    parts = [b"", b"fail", stage.queue.encode(), far.job.id.encode(), kid.encode(), b"fp", b"far away"]
    equal(await other.raw("LRANGE", "flow:outbox", 0, -1), [b"\0".join(parts)], "the outbox")
    for _ in range(2):
        await flows.deliver(stage.bus, other.queue)
        equal(await _state(stage, far.job.id), "dead", "the far parent")
        equal(await stage.count("failed"), 3, "failures: one child and two parents")
        await other.raw("RPUSH", "flow:outbox", b"\0".join(parts))
    await stage.sound()


async def flow_ignore_dep(stage: ScenarioFixture) -> None:
    """An ignored failure counts as an end, and is recorded apart from the results; near and far alike."""
    other = stage.sibling("child")
    flow = new_parent(
        stage, new_child(stage, ignore=True), new_child(stage, other.queue, ignore=True), new_child(stage)
    )
    parent, (near, far, good) = flow.job.id, [child.job.id for child in flow.children]
    await flows.add(stage.bus, stage.queue, flow)
    equal((await stage.row(near))["parent_policy"], "id", "the child's policy")
    held = {job.id: job for job in await stage.take(2)}
    await stage.settle(held[near], Discard("never mind"))
    await stage.settle(held[good], Complete(b"fine"))
    equal(await stage.text(f"job:{parent}:dependencies"), "1", "the counter")
    await end(other, Discard("far off"), far)
    await flows.deliver(stage.bus, other.queue)
    equal(await stage.hash(f"job:{parent}:unsuccessful"), {near: "never mind", far: "far off"}, "the failures, raw")
    ignored = await flows.ignored_failures(stage.bus, stage.queue, parent)
    equal(dict(ignored), {near: "never mind", far: "far off"}, "the ignored failures")
    equal(dict(await flows.children_values(stage.bus, stage.queue, parent)), {good: b"fine"}, "the results")
    equal([job.id for job in await stage.take()], [parent], "the parent runs")
    await stage.sound()


async def flow_add_bulk(stage: ScenarioFixture) -> None:
    """Good flows land; a bad one leaves no runnable parent of its own and does not spoil the others."""
    good = [new_parent(stage, new_child(stage)) for _ in range(2)]
    bad = new_parent(stage, new_child(stage), Flow(NewJob(stage.id("ORD"), b"x")))
    verdicts = await flows.add_bulk(stage.bus, stage.queue, [good[0], bad, good[1]])
    that(isinstance(verdicts[0], Added) and isinstance(verdicts[2], Added), f"the good ones: {verdicts}")
    that(isinstance(verdicts[1], AdmissionRefused), f"the bad one: {verdicts[1]}")
    equal(set(await stage.scores("pending")), {flow.children[0].job.id for flow in good}, "the backlog")
    other = stage.sibling("child")
    half = new_parent(stage, Flow(NewJob(stage.id("ORD"), b"x"), queue=other.queue))
    (verdict,) = await flows.add_bulk(stage.bus, stage.queue, [half])
    that(isinstance(verdict, AdmissionRefused), f"a bad child elsewhere: {verdict}")
    that(await _state(stage, half.job.id) in ("awaiting_children", "absent"), "its parent is held, never runnable")
    await stage.sound()


async def flow_grandchild(stage: ScenarioFixture) -> None:
    """Three levels complete upward, in one queue and across three."""
    middle_queue, low_queue = stage.sibling("middle"), stage.sibling("low")
    for middle, low in ((stage, stage), (middle_queue, low_queue)):
        leaf = new_child(stage, low.queue)
        branch = new_parent(stage, leaf, queue=middle.queue)
        root = new_parent(stage, branch)
        await flows.add(stage.bus, stage.queue, root)
        for place, job_id in ((low, leaf.job.id), (middle, branch.job.id), (stage, root.job.id)):
            await end(place, Complete(), job_id)
            if place is not stage:
                await flows.deliver(stage.bus, place.queue)
        for place in (stage, middle, low):
            equal([name for name in await place.keys() if name == "pending"], [], f"the backlog of {place.queue}")
            await place.sound()


async def flow_grandchild_fail(stage: ScenarioFixture) -> None:
    """Death climbs every level, over queues by sweeps; an ignored failure at the top lets the root run; once only."""
    other = stage.sibling("low")
    leaf = new_child(stage, other.queue)
    third = new_parent(stage, leaf, queue=other.queue)
    second = new_parent(stage, third)
    root = new_parent(stage, second)
    await flows.add(stage.bus, stage.queue, root)
    await end(other, Discard("deep"), leaf.job.id)
    equal(await _state(other, third.job.id), "dead", "the level in the leaf's queue")
    equal(await _state(stage, second.job.id), "awaiting_children", "the level above, before the sweep")
    for _ in range(2):
        await flows.deliver(stage.bus, other.queue)
        await flows.deliver(stage.bus, stage.queue)
    equal([await _state(stage, flow.job.id) for flow in (second, root)], ["dead", "dead"], "the levels above")
    equal(await stage.count("failed"), 2, "failures in the root's queue: once each")
    calm_leaf = new_child(stage)
    calm_middle = new_parent(stage, calm_leaf, ignore=True)
    calm_root = new_parent(stage, calm_middle)
    await flows.add(stage.bus, stage.queue, calm_root)
    await end(stage, Discard("deep"), calm_leaf.job.id)
    equal(await _state(stage, calm_middle.job.id), "dead", "the middle")
    ignored = await flows.ignored_failures(stage.bus, stage.queue, calm_root.job.id)
    equal(list(ignored), [calm_middle.job.id], "the root's ignored failures")
    equal([job.id for job in await stage.take()], [calm_root.job.id], "the root runs")
    await stage.sound()
