"""Flows in one queue: parents wait, children count once, deaths climb, and the same flow again changes nothing."""

from __future__ import annotations

import pytest

from codemojex.engine.errors import FlowCycle, FlowTooDeep, InvalidValue, WrongKind
from codemojex.engine.flows import flows
from codemojex.engine.flows.flows import Added, Flow
from codemojex.engine.inspection import admin
from codemojex.engine.inspection.audit import audit
from codemojex.engine.jobs import cancel, settlement
from codemojex.engine.jobs.jobs import AdmissionRefused, Dedup, Duplicate, NewJob
from codemojex.engine.jobs.outcome import Complete, Discard, GiveBack, Retry
from codemojex.engine.lanes import lanes
from codemojex.engine.maintenance import recovery
from tests.engine.bench import Bench, lane
from tests.engine.flow_bench import add, die, end, held, left, node, settle, state

# adding


async def test_a_parent_waits_in_no_set_while_its_children_can_be_claimed(bench: Bench) -> None:
    flow = node(bench, node(bench), node(bench))
    added = await add(bench, flow)
    children = [child.job.id for child in flow.children]
    assert (added.id, [child.id for child in added.children]) == (flow.job.id, children)
    assert await left(bench, added.id) == 2
    assert [i.decode() for i in await bench.raw("ZRANGE", "pending", 0, -1)] == sorted(children)
    assert await admin.get_job_state(bench.bus, bench.queue, added.id) == "awaiting_children"
    assert sorted(job.id for job in await bench.take(2)) == sorted(children)
    assert not (await bench.claim(5)).jobs
    await bench.sound()


async def test_the_stored_form_of_a_flow_byte_by_byte(bench: Bench) -> None:
    flow = node(bench, node(bench), node(bench, ignore=True))
    parent = (await add(bench, flow)).id
    one, two = [child.job.id for child in flow.children]
    plain = {"state": "pending", "attempts": "0", "payload": "x", "parent": parent}
    assert await bench.row(parent) == {"state": "awaiting_children", "attempts": "0", "payload": "x", "children": "2"}
    assert await bench.row(one) == {**plain, "parent_policy": "fp"}
    assert await bench.row(two) == {**plain, "parent_policy": "id"}
    assert await bench.raw("GET", f"job:{parent}:dependencies") == b"2"
    await end(bench, one, Complete(b"\0r"))
    await die(bench, two)
    assert await bench.raw("HGETALL", f"job:{parent}:processed") == {one.encode(): b"\0r"}
    assert await bench.raw("HGETALL", f"job:{parent}:unsuccessful") == {two.encode(): b"boom"}
    assert await bench.raw("GET", f"job:{parent}:dependencies") == b"0"
    assert await bench.raw("ZRANGE", "pending", 0, -1, "WITHSCORES") == [[parent.encode(), 0.0]]


async def test_the_same_flow_again_changes_nothing(bench: Bench) -> None:
    flow = node(bench, node(bench, node(bench)), node(bench, lane=lane(1)))
    await add(bench, flow)
    await end(bench, flow.children[1].job.id, Complete(b"done"))
    before = await bench.keys(), await bench.row(flow.job.id), await left(bench, flow.job.id)
    assert await flows.add(bench.bus, bench.queue, flow) == Duplicate(flow.job.id)
    assert (await bench.keys(), await bench.row(flow.job.id), await left(bench, flow.job.id)) == before
    await bench.sound()


async def test_a_flow_whose_ids_other_jobs_have_is_refused_whole(bench: Bench) -> None:
    (taken,) = await bench.fill([None])
    flow = node(bench, node(bench), Flow(NewJob(taken, b"y")))
    assert await flows.add(bench.bus, bench.queue, flow) == Duplicate(taken, conflict=True)
    assert await flows.add(bench.bus, bench.queue, Flow(NewJob(taken, b"y"), [node(bench)])) == Duplicate(taken, True)
    assert [key for key in await bench.keys() if key.startswith("job:")] == [f"job:{taken}"]


async def test_a_flow_without_children_is_a_plain_job_that_can_be_claimed_at_once(bench: Bench) -> None:
    flow = node(bench)
    assert await add(bench, flow) == Added(flow.job.id, [])
    assert await bench.row(flow.job.id) == {"state": "pending", "attempts": "0", "payload": "x"}
    assert (await bench.take())[0].id == flow.job.id


async def test_an_idempotency_key_covers_the_whole_flow(bench: Bench) -> None:
    first = Flow(bench.job(dedup=Dedup("k", 60_000)), [node(bench)])
    again = Flow(bench.job(dedup=Dedup("k", 60_000)), [node(bench)])
    await add(bench, first)
    assert await flows.add(bench.bus, bench.queue, again) == Duplicate(first.job.id)
    assert await bench.row(again.children[0].job.id) == {}


async def test_a_flow_of_eight_levels_is_added_and_one_of_nine_refused_before_anything_is_sent(bench: Bench) -> None:
    flow = node(bench)
    for _ in range(7):
        flow = node(bench, flow)
    deep = node(bench, flow)
    with pytest.raises(FlowTooDeep, match="8"):
        await flows.add(bench.bus, bench.queue, deep)
    assert await bench.keys() == {}
    await add(bench, flow)
    chain = [flow]
    while chain[-1].children:
        chain.append(chain[-1].children[0])
    for link in reversed(chain):
        await end(bench, link.job.id)
    assert set(await bench.keys()) <= {"metrics:completed", "wake"}


async def test_a_job_named_twice_is_refused_before_anything_is_sent(bench: Bench) -> None:
    twin = node(bench)
    for flow in (node(bench, twin, twin), Flow(twin.job, [node(bench, twin)])):
        with pytest.raises(FlowCycle, match=twin.job.id):
            await flows.add(bench.bus, bench.queue, flow)
    assert await bench.keys() == {}


async def test_what_a_flow_cannot_mean_is_refused_before_anything_is_sent(bench: Bench) -> None:
    late_parent = Flow(bench.job(delay_ms=5), [node(bench)])
    keyed_child = node(bench, Flow(bench.job(dedup=Dedup("k", 5))))
    large = node(bench, *(Flow(bench.job(b"x" * 65_000)) for _ in range(70)))
    many = node(bench, *(node(bench) for _ in range(1000)))
    for flow in (late_parent, keyed_child, large, many):
        with pytest.raises(InvalidValue):
            await flows.add(bench.bus, bench.queue, flow)
    assert await bench.keys() == {}


async def test_one_foreign_id_refuses_the_whole_flow_of_a_queue(bench: Bench) -> None:
    order = bench.id().replace("JOB", "ORD")
    with pytest.raises(WrongKind):
        await flows.add(bench.bus, bench.queue, node(bench, node(bench), Flow(NewJob(order, b"x"))))
    assert await bench.keys() == {}


async def test_a_bad_flow_of_many_spoils_no_other(bench: Bench) -> None:
    good, other, twin = node(bench, node(bench)), node(bench, node(bench)), node(bench)
    bad = Flow(NewJob(bench.id().replace("JOB", "ORD"), b"x"), [node(bench)])
    verdicts = await flows.add_bulk(bench.bus, bench.queue, [good, bad, node(bench, twin, twin), other, good])
    assert [type(verdict) for verdict in verdicts] == [Added, AdmissionRefused, AdmissionRefused, Added, Duplicate]
    assert [await state(bench, flow.job.id) for flow in (good, other)] == ["awaiting_children"] * 2
    await bench.sound()


# children end


async def test_a_parent_runs_after_its_last_child_and_a_second_completion_counts_nothing(bench: Bench) -> None:
    flow = node(bench, node(bench), node(bench))
    parent = (await add(bench, flow)).id
    one, two = await bench.take(2)
    await settle(bench, one)
    assert await settlement.complete(bench.bus, bench.queue, one.id, one.token) == settlement.Gone()
    assert (await left(bench, parent), await state(bench, parent)) == (1, "awaiting_children")
    await bench.bus.execute("DEL", bench.space.key("wake"))
    await settle(bench, two)
    assert await bench.wakes() == 1, "a parked worker is called for the parent"
    assert (await bench.take())[0].id == parent
    await bench.sound()


async def test_a_late_completion_after_a_lapsed_lease_counts_as_well(bench: Bench) -> None:
    parent = (await add(bench, node(bench, node(bench)))).id
    (job,) = await bench.take()
    await bench.lapse(job)
    await recovery.recover(bench.bus, bench.queue)
    assert await state(bench, job.id) == "pending"
    await settle(bench, job, Complete(b"late"))
    assert await flows.children_values(bench.bus, bench.queue, parent) == {job.id: b"late"}
    assert (await bench.take())[0].id == parent


async def test_results_are_read_by_child_and_reading_changes_nothing(bench: Bench) -> None:
    flow = node(bench, node(bench), node(bench), node(bench))
    parent = (await add(bench, flow)).id
    one, two, three = [child.job.id for child in flow.children]
    await end(bench, one, Complete(b""))
    await end(bench, two, Complete("an object that stays in the process"))
    for _ in range(2):
        assert await flows.children_values(bench.bus, bench.queue, parent) == {one: b"", two: two.encode()}
        assert await left(bench, parent) == 1
    await end(bench, three)
    (job,) = await bench.take()
    assert set(await flows.children_values(bench.bus, bench.queue, job.id)) == {one, two, three}


async def test_a_finished_parent_leaves_nothing(bench: Bench) -> None:
    flow = node(bench, node(bench), node(bench, ignore=True))
    parent = (await add(bench, flow)).id
    await end(bench, flow.children[0].job.id)
    await die(bench, flow.children[1].job.id)
    await end(bench, parent)
    assert not [key for key in await bench.keys() if parent in key]


async def test_a_result_larger_than_a_payload_is_refused_before_it_is_sent(bench: Bench) -> None:
    await bench.fill([None])
    (job,) = await bench.take()
    with pytest.raises(InvalidValue, match="result"):
        await settle(bench, job, Complete(b"x" * 65_537))
    await settle(bench, job, Complete(b"x" * 65_536))


async def test_three_levels_complete_upward(bench: Bench) -> None:
    flow = node(bench, node(bench, node(bench), node(bench)), node(bench))
    await add(bench, flow)
    middle = flow.children[0]
    for leaf in middle.children:
        await end(bench, leaf.job.id)
    assert (await state(bench, middle.job.id), await state(bench, flow.job.id)) == ("pending", "awaiting_children")
    await end(bench, middle.job.id, Complete(b"m"))
    await end(bench, flow.children[1].job.id)
    assert (await flows.children_values(bench.bus, bench.queue, flow.job.id))[middle.job.id] == b"m"
    await end(bench, flow.job.id)
    await bench.sound()


# children die


@pytest.mark.parametrize("how", ["discard", "retry", "stalled", "expired", "cancelled", "removed"])
async def test_the_death_of_a_child_is_its_parent_s_whatever_killed_it(bench: Bench, how: str) -> None:
    past = {"expires_at_ms": 1} if how == "expired" else {}
    flow = Flow(bench.job(), [Flow(bench.job(**past)), node(bench)])
    parent, child = (await add(bench, flow)).id, flow.children[0].job.id
    match how:
        case "discard":
            await end(bench, child, Discard("boom"))
        case "retry":
            job = await held(bench, child)
            await bench.settle(job, Retry("boom"), settlement.Policy(max_attempts=1))
        case "stalled":
            await bench.lapse(await held(bench, child))
            await recovery.recover(bench.bus, bench.queue, max_stalled=1)
        case "expired":
            await bench.claim(1)
        case "cancelled":
            await cancel.request(bench.bus, bench.queue, child, "no need")
        case _:
            await admin.remove_job(bench.bus, bench.queue, child)
    error = {"discard": "boom", "retry": "boom", "cancelled": "cancelled: no need"}.get(how, how)
    assert await flows.failures(bench.bus, bench.queue, parent) == {child: error}
    row = await bench.row(parent)
    assert (row["state"], row["last_error"]) == ("dead", f"child {child} failed: {error}")
    assert await bench.raw("ZSCORE", "dead", parent) == 0
    await bench.sound()


async def test_a_second_death_changes_nothing_for_a_dead_parent(bench: Bench) -> None:
    flow = node(bench, node(bench), node(bench))
    parent = (await add(bench, flow)).id
    one, two = [child.job.id for child in flow.children]
    await die(bench, one, "first")
    await die(bench, two, "second")
    assert (await bench.row(parent))["last_error"] == f"child {one} failed: first"
    assert await flows.failures(bench.bus, bench.queue, parent) == {one: "first", two: "second"}
    assert await bench.raw("HGET", "metrics:failed", "count") == b"3"


async def test_an_ignored_death_counts_as_ended_and_is_recorded_apart(bench: Bench) -> None:
    flow = node(bench, node(bench, ignore=True), node(bench))
    parent = (await add(bench, flow)).id
    one, two = [child.job.id for child in flow.children]
    await die(bench, one)
    assert await left(bench, parent) == 1
    await end(bench, two)
    assert (await bench.take())[0].id == parent
    assert await flows.ignored_failures(bench.bus, bench.queue, parent) == {one: "boom"}
    assert await flows.children_values(bench.bus, bench.queue, parent) == {two: two.encode()}


async def test_an_ignored_death_that_lives_again_is_counted_once(bench: Bench) -> None:
    flow = node(bench, node(bench, ignore=True), node(bench))
    parent = (await add(bench, flow)).id
    one = flow.children[0].job.id
    for _ in range(2):
        await die(bench, one)
        await admin.reprocess(bench.bus, bench.queue, one)
    await end(bench, one, Complete(b"after all"))
    assert (await left(bench, parent), await state(bench, parent)) == (1, "awaiting_children")
    assert await flows.ignored_failures(bench.bus, bench.queue, parent) == {}
    assert await flows.children_values(bench.bus, bench.queue, parent) == {one: b"after all"}


async def test_death_climbs_every_level_at_once_and_carries_the_error(bench: Bench) -> None:
    leaf = node(bench)
    flow = node(bench, node(bench, node(bench, leaf)), node(bench))
    await add(bench, flow)
    middle = flow.children[0]
    await die(bench, leaf.job.id)
    for parent, child in ((middle.children[0], leaf), (middle, middle.children[0]), (flow, middle)):
        assert await state(bench, parent.job.id) == "dead"
        assert await flows.failures(bench.bus, bench.queue, parent.job.id) == {child.job.id: "boom"}
    await bench.sound()


async def test_a_level_that_ignores_stops_the_death(bench: Bench) -> None:
    leaf = node(bench)
    middle = node(bench, leaf, ignore=True)
    flow = node(bench, middle)
    await add(bench, flow)
    await die(bench, leaf.job.id)
    assert (await state(bench, middle.job.id), await state(bench, flow.job.id)) == ("dead", "pending")
    assert await flows.ignored_failures(bench.bus, bench.queue, flow.job.id) == {middle.job.id: "boom"}


async def test_a_parent_that_is_gone_leaves_no_ghost(bench: Bench) -> None:
    flow = node(bench, node(bench), node(bench))
    parent = (await add(bench, flow)).id
    one, two = [child.job.id for child in flow.children]
    await admin.remove_job(bench.bus, bench.queue, parent)
    await end(bench, one)
    await die(bench, two)
    assert not [key for key in await bench.keys() if parent in key]
    await bench.sound()


async def test_a_dead_flow_can_be_taken_up_again_by_hand(bench: Bench) -> None:
    flow = node(bench, node(bench))
    parent, child = (await add(bench, flow)).id, flow.children[0].job.id
    await die(bench, child)
    for job_id in (child, parent):
        await admin.reprocess(bench.bus, bench.queue, job_id)
    await end(bench, child, Complete(b"now"))
    assert await flows.failures(bench.bus, bench.queue, parent) == {}
    assert await flows.children_values(bench.bus, bench.queue, parent) == {child: b"now"}
    assert [job.id for job in (await bench.claim(5)).jobs] == [parent]
    await bench.sound()


@pytest.mark.parametrize("revived", [False, True], ids=["dead", "in flight"])
async def test_a_child_that_lives_again_moves_only_a_parent_that_waits(bench: Bench, revived: bool) -> None:
    flow = node(bench, node(bench))
    parent, child = (await add(bench, flow)).id, flow.children[0].job.id
    await die(bench, child)
    if revived:
        await admin.reprocess(bench.bus, bench.queue, parent)
        await bench.take()
    await admin.reprocess(bench.bus, bench.queue, child)
    await end(bench, child)
    assert (await left(bench, parent), await state(bench, parent)) == (0, "active" if revived else "dead")
    assert not (await bench.claim(5)).jobs
    await bench.sound()


# lanes


@pytest.mark.parametrize("limit", [None, 1, 2])
async def test_children_and_parents_have_lanes_and_the_books_stay_right(bench: Bench, limit: int | None) -> None:
    await lanes.limit(bench.bus, bench.queue, lane(1), limit)
    flow = node(bench, node(bench, lane=lane(1)), node(bench, lane=lane(1), ignore=True), lane=lane(1))
    await add(bench, flow)
    await bench.sound()
    for outcome in (Complete(), Discard("no")):
        (job,) = await bench.take()
        assert job.lane == lane(1)
        await settle(bench, job, outcome)
        await bench.sound()
    (job,) = await bench.take()
    assert (job.id, job.lane) == (flow.job.id, lane(1))
    await settle(bench, job)
    await bench.sound()


@pytest.mark.parametrize("how", ["stalled", "expired", "cancelled", "removed", "drained"])
async def test_a_child_that_ends_in_its_parent_s_lane_leaves_the_ring_right(bench: Bench, how: str) -> None:
    await lanes.limit(bench.bus, bench.queue, lane(1), 1)
    past = {"expires_at_ms": 1} if how == "expired" else {}
    child = Flow(bench.job(lane=lane(1), **past), ignore_failure=True)
    flow = Flow(bench.job(lane=lane(1)), [child])
    await add(bench, flow)
    match how:
        case "stalled":
            await bench.lapse(await held(bench, child.job.id))
            await recovery.recover(bench.bus, bench.queue, max_stalled=1)
        case "expired":
            assert not (await bench.claim(1)).jobs
        case "cancelled":
            await cancel.request(bench.bus, bench.queue, child.job.id, "no")
        case "removed":
            await admin.remove_job(bench.bus, bench.queue, child.job.id)
        case _:
            await lanes.drain(bench.bus, bench.queue, lane(1), limit=1)
    assert await bench.ring() == [lane(1)]
    await bench.sound()
    assert (await bench.take())[0].id == flow.job.id


async def test_a_child_given_back_signals_nothing(bench: Bench) -> None:
    parent = (await add(bench, node(bench, node(bench)))).id
    (job,) = await bench.take()
    await bench.settle(job, GiveBack())
    (job,) = await bench.take()
    await bench.settle(job, Retry("not yet", 0))
    assert await left(bench, parent) == 1


# what it costs, and the oracle


async def test_a_job_without_a_parent_pays_nothing(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands of a completion and of a death, counted by the server inside the script."""

    async def calls(outcome: object) -> dict[str, int]:
        await bench.fill([None])
        (job,) = await bench.take()
        await bench.bus.execute("CONFIG", "RESETSTAT")
        await bench.settle(job, outcome)  # type: ignore[arg-type]
        stats = (await bench.bus.execute("INFO", "commandstats")).decode()
        found = {line.split(":")[0].removeprefix("cmdstat_"): line for line in stats.split() if "calls=" in line}
        return {name: int(line.split("calls=")[1].split(",")[0]) for name, line in found.items()}

    await bench.fill([None])
    await bench.settle((await bench.take())[0])  # the scripts are known to the server
    done, dead = await calls(Complete(b"result")), await calls(Discard("no"))
    for extra in ("evalsha", "info", "config|resetstat"):
        done.pop(extra, None)
        dead.pop(extra, None)
    assert done == {"time": 1, "hmget": 1, "del": 1, "zrem": 1, "hincrby": 1, "hexists": 1}
    # What ends otherwise also looks at the failures, and a death clears what was asked of the job.
    assert dead == {"time": 1, "hmget": 2, "hset": 2, "hdel": 1, "zrem": 1, "zadd": 1, "hincrby": 1, "hexists": 1}


async def test_the_audit_finds_a_parent_that_waits_for_nobody_and_sets_it_right(bench: Bench) -> None:
    flow = node(bench, node(bench), node(bench))
    parent = (await add(bench, flow)).id
    await end(bench, flow.children[0].job.id)
    await bench.sound()
    for damage in (("SET", "2"), ("SET", "0"), ("DEL",)):
        await bench.bus.execute(damage[0], bench.space.part(parent, "dependencies"), *damage[1:])
        assert parent in {violation.subject for violation in await audit(bench.bus, bench.queue)}
    await bench.raw("SET", f"job:{parent}:dependencies", 7)
    await audit(bench.bus, bench.queue, repair=True)
    await bench.sound()
    assert await left(bench, parent) == 1
    await bench.raw("HSET", f"job:{parent}:processed", flow.children[1].job.id, "x")
    await audit(bench.bus, bench.queue, repair=True)
    assert await state(bench, parent) == "pending"
    await bench.sound()


async def test_obliteration_takes_waiting_parents_along(bench: Bench) -> None:
    await add(bench, node(bench, node(bench, node(bench), ignore=True), node(bench, lane=lane(1)), lane=lane(2)))
    await admin.pause(bench.bus, bench.queue)
    assert await admin.obliterate(bench.bus, bench.queue)
    assert await bench.keys() == {}
