"""Flows over several queues: the outbox loses no end, a parent counts each once, a broken call is completed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codemojex.engine import keyspace
from codemojex.engine.errors import EngineError, InvalidValue, ServerFull, Unavailable, WrongKind, WrongState
from codemojex.engine.flows import flows, outbox
from codemojex.engine.flows.flows import Added, Delivered, Flow
from codemojex.engine.flows.outbox import Signal
from codemojex.engine.ids import Minter
from codemojex.engine.inspection import admin, metrics
from codemojex.engine.inspection.audit import audit
from codemojex.engine.jobs import cancel, registry
from codemojex.engine.jobs.jobs import Duplicate, NewJob
from codemojex.engine.jobs.outcome import Complete
from codemojex.engine.maintenance import recovery
from codemojex.engine.maintenance.pump import Pump
from codemojex.engine.scripts import Script
from codemojex.engine.transport.connector import Arg, Connector
from codemojex.engine.worker.worker import Worker, WorkerOptions
from tests.engine.bench import Bench, lane, running
from tests.engine.flow_bench import add, die, end, left, node, state, sweep, there
from tests.engine.flow_bench import outbox as entries
from tests.support.valkey import ValkeyServer
from tests.support.waiting import until


async def pair(bench: Bench, other: Bench, **more: bool) -> tuple[str, str]:
    """A parent here, its only child there."""
    flow = node(bench, node(bench, queue=other.queue, **more))
    return (await add(bench, flow)).id, flow.children[0].job.id


# the framing


async def test_a_completion_in_the_outbox_byte_by_byte(bench: Bench) -> None:
    other = there(bench, "far")
    parent, child = await pair(bench, other)
    assert (await other.row(child))["parent_queue"] == bench.queue
    await end(other, child, Complete(b"a\0b"))
    assert await entries(other) == [f"{bench.queue}\0{parent}\0{child}\0a\0b".encode()]
    assert await sweep(other) == 1
    assert await flows.children_values(bench.bus, bench.queue, parent) == {child: b"a\0b"}
    assert (await entries(other), await state(bench, parent)) == ([], "pending")


async def test_a_completion_without_a_result_carries_the_child_s_id(bench: Bench) -> None:
    other = there(bench, "far")
    parent, child = await pair(bench, other)
    await end(other, child)
    assert await entries(other) == [f"{bench.queue}\0{parent}\0{child}\0{child}".encode()]


@pytest.mark.parametrize(("ignore", "policy"), [(False, "fp"), (True, "id")])
async def test_a_failure_in_the_outbox_byte_by_byte(bench: Bench, ignore: bool, policy: str) -> None:
    other = there(bench, "far")
    parent, child = await pair(bench, other, ignore=ignore)
    await die(other, child, "bad \0 luck")
    assert await entries(other) == [f"\0fail\0{bench.queue}\0{parent}\0{child}\0{policy}\0bad \0 luck".encode()]
    assert await sweep(other) == 1
    record = await bench.raw("HGETALL", f"job:{parent}:{'unsuccessful' if ignore else 'failed'}")
    assert record == {child.encode(): b"bad \0 luck"}
    assert await state(bench, parent) == ("pending" if ignore else "dead")


_mint = Minter(9)
IDS = st.sampled_from([_mint.mint("JOB") for _ in range(5)])


@given(queue=st.from_regex(r"[A-Za-z0-9._-]{1,20}", fullmatch=True), parent=IDS, child=IDS, text=st.binary(max_size=40))
def test_every_entry_is_read_as_it_was_written(queue: str, parent: str, child: str, text: bytes) -> None:
    head = f"{queue}\0{parent}\0{child}\0".encode()
    if queue != "emq":
        assert outbox.parse(head + text) == Signal(queue, parent, child, None, text)
        failure = f"\0fail\0{queue}\0{parent}\0{child}\0id\0".encode() + text
        assert outbox.parse(failure) == Signal(queue, parent, child, "id", text)


@given(st.binary(max_size=80))
def test_no_bytes_whatever_break_the_reader(entry: bytes) -> None:
    signal = outbox.parse(entry)
    assert signal is None or signal.text in entry


# delivery


async def test_a_second_delivery_of_an_end_changes_nothing(bench: Bench) -> None:
    other = there(bench, "far")
    flow = node(bench, node(bench, queue=other.queue), node(bench, queue=other.queue, ignore=True), node(bench))
    parent = (await add(bench, flow)).id
    one, two = [child.job.id for child in flow.children[:2]]
    await end(other, one)
    await die(other, two)
    kept = await entries(other)
    for _ in range(3):
        assert await sweep(other) == 2
        assert await left(bench, parent) == 1
        await other.raw("RPUSH", "flow:outbox", *kept)
    await bench.sound()


async def test_a_delivery_takes_no_more_than_it_was_asked_for_and_keeps_the_order(bench: Bench) -> None:
    other = there(bench, "far")
    flow = node(bench, *(node(bench, queue=other.queue) for _ in range(5)))
    await add(bench, flow)
    for child in flow.children:
        await end(other, child.job.id)
    kept = await entries(other)
    assert await flows.deliver(bench.bus, other.queue, 2) == Delivered(2, 0, full=True)
    assert await entries(other) == kept[2:]
    assert await flows.deliver(bench.bus, other.queue, 9) == Delivered(3)
    assert await flows.deliver(bench.bus, other.queue) == Delivered()
    with pytest.raises(InvalidValue):
        await flows.deliver(bench.bus, other.queue, 501)


async def test_two_pumps_that_read_the_same_entries_take_off_only_these(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The slower one acknowledges after the faster one did, and after new entries came."""
    other = there(bench, "far")
    flow = node(bench, *(node(bench, queue=other.queue) for _ in range(4)))
    parent = (await add(bench, flow)).id
    one, two, three, four = [child.job.id for child in flow.children]
    await end(other, one, Complete(b"same"))
    await end(other, two, Complete(b"same"))
    told, go = asyncio.Event(), asyncio.Event()
    acknowledge = outbox._acknowledge  # type: ignore[attr-defined]

    async def slow(*args: object) -> int:
        monkeypatch.setattr(outbox, "_acknowledge", acknowledge)
        told.set()
        await go.wait()
        return await acknowledge(*args)

    monkeypatch.setattr(outbox, "_acknowledge", slow)
    async with asyncio.TaskGroup() as tasks:
        slower = tasks.create_task(flows.deliver(bench.bus, other.queue))
        await told.wait()
        assert await sweep(other) == 2
        # An entry with the very bytes of one that was delivered, and new ones behind it.
        await other.raw("RPUSH", "flow:outbox", f"{bench.queue}\0{parent}\0{one}\0same")
        await end(other, three)
        await end(other, four)
        go.set()
    assert slower.result().entries == 0
    assert len(await entries(other)) == 3, "the slower pump takes off nothing that it did not deliver"
    assert await sweep(other) == 3
    assert (await left(bench, parent), await state(bench, parent)) == (0, "pending")


async def test_many_pumps_at_once_deliver_everything(bench: Bench) -> None:
    other = there(bench, "far")
    flow = node(bench, *(node(bench, queue=other.queue) for _ in range(60)))
    parent = (await add(bench, flow)).id
    done = asyncio.Event()

    async def pump() -> int:
        taken = 0
        while not done.is_set():
            taken += await sweep(other, 7)
        return taken

    async with asyncio.TaskGroup() as tasks:
        pumps = [tasks.create_task(pump()) for _ in range(4)]
        for child in flow.children:
            await end(other, child.job.id, Complete(b"r"))
        await until(lambda: _is(bench, parent, "pending"))
        await until(lambda: _empty(other))
        done.set()
    assert sum(task.result() for task in pumps) == 60, "each entry was taken off once"
    assert len(await flows.children_values(bench.bus, bench.queue, parent)) == 60
    await bench.sound()


async def _is(bench: Bench, job_id: str, wanted: str) -> bool:
    return await state(bench, job_id) == wanted


async def _empty(bench: Bench) -> bool:
    return not await entries(bench)


async def test_a_foreign_pump_that_trims_without_counting_costs_no_entry(bench: Bench) -> None:
    other = there(bench, "far")
    flow = node(bench, *(node(bench, queue=other.queue) for _ in range(4)))
    parent = (await add(bench, flow)).id
    for child in flow.children[:2]:
        await end(other, child.job.id)
    first, kept = await bench.bus.run(flows.ENGINE.script("flow_outbox"), (other.space.prefix,), (10,))
    await other.raw("LTRIM", "flow:outbox", 1, -1)
    for child in flow.children[2:]:
        await end(other, child.job.id)
    args = (first, 0, *kept)
    assert await bench.bus.run(flows.ENGINE.script("flow_ack"), (other.space.prefix,), args) == 0
    assert len(await entries(other)) == 3
    assert await sweep(other) == 3
    assert await left(bench, parent) == 1, "what the foreign pump took off without delivering is its own loss"


async def test_an_entry_that_nobody_can_read_is_counted_and_set_aside_when_it_is_the_only_one(bench: Bench) -> None:
    await bench.raw("RPUSH", "flow:outbox", "nonsense")
    assert await outbox.deliver(bench.bus, bench.queue) == outbox.Delivered(1, 1)
    assert await bench.raw("LRANGE", "flow:rejected", 0, -1) == [b"nonsense"]
    assert await bench.raw("GET", "flow:sent") == b"1"


async def test_an_entry_that_nobody_can_read_stands_in_nobody_s_way(bench: Bench) -> None:
    other = there(bench, "far")
    parent, child = await pair(bench, other)
    broken = there(bench, "broken")
    stuck = node(broken, node(broken, queue=other.queue))
    await add(broken, stuck)
    bad = [b"", b"nonsense", b"\0fail\0", f"emq\0{parent}\0{child}\0x".encode(), f"q\0{parent}\0no\0x".encode()]
    await other.raw("RPUSH", "flow:outbox", *bad)
    await end(other, stuck.children[0].job.id)
    await broken.raw("SET", f"job:{stuck.job.id}:processed", "not a hash")
    await end(other, child)
    delivered = await flows.deliver(bench.bus, other.queue)
    assert (delivered.entries, delivered.rejected) == (7, 6)
    assert await state(bench, parent) == "pending"
    assert (await other.raw("LRANGE", "flow:rejected", 0, -1))[:5] == bad
    assert await other.raw("PTTL", "flow:rejected") > 0


async def test_a_full_server_keeps_the_entries_and_delivers_them_later(
    start_valkey: Callable[..., ValkeyServer], queue: str
) -> None:
    bus = await Connector.connect(start_valkey().url)
    bench = Bench(bus, queue)
    other = there(bench, "far")
    parent, child = await pair(bench, other)
    await end(other, child)
    await bus.execute("CONFIG", "SET", "maxmemory", "1")
    with pytest.raises(ServerFull):
        await flows.deliver(bus, other.queue)
    assert len(await entries(other)) == 1
    await bus.execute("CONFIG", "SET", "maxmemory", "0")
    assert await sweep(other) == 1
    assert await state(bench, parent) == "pending"
    await bus.close()


async def test_an_end_for_a_parent_that_is_gone_is_taken_off_and_makes_no_ghost(bench: Bench) -> None:
    other = there(bench, "far")
    parent, child = await pair(bench, other)
    await admin.remove_job(bench.bus, bench.queue, parent)
    await die(other, child)
    assert await sweep(other) == 1
    assert not [key for key in await bench.keys() if parent in key]


@pytest.mark.parametrize("policy", ["fp", "id"])
async def test_a_failure_told_after_the_child_s_completion_changes_nothing(bench: Bench, policy: str) -> None:
    other = there(bench, "far")
    flow = node(bench, node(bench, queue=other.queue), node(bench))
    parent, child = (await add(bench, flow)).id, flow.children[0].job.id
    await end(other, child)
    await other.raw("RPUSH", "flow:outbox", f"\0fail\0{bench.queue}\0{parent}\0{child}\0{policy}\0late")
    assert await sweep(other) == 2
    assert (await left(bench, parent), await state(bench, parent)) == (1, "awaiting_children")
    await bench.sound()


# several levels


async def test_three_levels_in_three_queues_complete_upward(bench: Bench) -> None:
    second, third = there(bench, "b"), there(bench, "c")
    leaf = node(bench, queue=third.queue, lane=lane(1))
    middle = node(bench, leaf, queue=second.queue)
    flow = node(bench, middle)
    await add(bench, flow)
    await end(third, leaf.job.id, Complete(b"leaf"))
    assert await state(second, middle.job.id) == "awaiting_children"
    await sweep(third)
    await end(second, middle.job.id, Complete(b"middle"))
    await sweep(second)
    assert await flows.children_values(bench.bus, bench.queue, flow.job.id) == {middle.job.id: b"middle"}
    await end(bench, flow.job.id)
    for queue in (bench, second, third):
        await queue.sound()


async def test_a_death_climbs_four_levels_over_queues_by_sweeps(bench: Bench) -> None:
    second, third = there(bench, "b"), there(bench, "c")
    leaf = node(bench, queue=third.queue)
    low = node(bench, leaf, queue=third.queue)
    high = node(bench, low, queue=second.queue)
    flow = node(bench, high)
    await add(bench, flow)
    await die(third, leaf.job.id)
    assert (await state(third, low.job.id), await state(second, high.job.id)) == ("dead", "awaiting_children")
    assert await entries(third) == [f"\0fail\0{second.queue}\0{high.job.id}\0{low.job.id}\0fp\0boom".encode()]
    for _ in range(2):
        kept = await entries(third) or kept  # noqa: F821
        await sweep(third)
        assert (await state(second, high.job.id), await state(bench, flow.job.id))[0] == "dead"
        await sweep(second)
        assert await state(bench, flow.job.id) == "dead"
        assert await bench.raw("HGET", "metrics:failed", "count") == b"1", "once only"
        await third.raw("RPUSH", "flow:outbox", *kept)
    assert await flows.failures(bench.bus, bench.queue, flow.job.id) == {high.job.id: "boom"}


async def test_an_ignored_death_at_the_top_lets_the_root_run(bench: Bench) -> None:
    second = there(bench, "b")
    leaf = node(bench, queue=second.queue)
    middle = node(bench, leaf, queue=second.queue, ignore=True)
    flow = node(bench, middle)
    await add(bench, flow)
    await die(second, leaf.job.id)
    await sweep(second)
    assert (await bench.take())[0].id == flow.job.id
    assert await flows.ignored_failures(bench.bus, bench.queue, flow.job.id) == {middle.job.id: "boom"}


# adding again, and in pieces


async def test_the_same_flow_again_changes_nothing_in_any_queue_at_any_time(bench: Bench) -> None:
    other = there(bench, "far")
    flow = node(bench, node(bench, node(bench, queue=bench.queue), queue=other.queue), node(bench, queue=other.queue))
    parent = (await add(bench, flow)).id
    middle, easy = flow.children

    async def again() -> None:
        before = [(await b.keys(), await entries(b)) for b in (bench, other)]
        assert await flows.add(bench.bus, bench.queue, flow) == Duplicate(parent)
        assert [(await b.keys(), await entries(b)) for b in (bench, other)] == before

    await again()
    await end(other, easy.job.id)
    await again()  # the end waits in the outbox
    await sweep(other)
    await again()  # the parent has heard
    await end(bench, middle.children[0].job.id)
    await sweep(bench)
    await die(other, middle.job.id)
    await again()
    await sweep(other)
    await again()
    assert await state(bench, parent) == "dead"


@pytest.mark.parametrize("broken_at", range(1, 4))
async def test_a_call_that_broke_off_is_completed_by_the_next(
    bench: Bench, broken_at: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = there(bench, "one"), there(bench, "two")
    flow = node(bench, node(bench, node(bench, queue=two.queue), queue=one.queue), node(bench, queue=two.queue))
    send, calls = flows._send, 0  # type: ignore[attr-defined]

    class Cut(Exception):
        pass

    async def cut(*args: object, **more: object) -> object:
        nonlocal calls
        calls += 1
        if calls > broken_at:
            raise Cut
        return await send(*args, **more)

    monkeypatch.setattr(flows, "_send", cut)
    with pytest.raises(Cut):
        await flows.add(bench.bus, bench.queue, flow)
    monkeypatch.undo()
    assert not (await bench.claim(3)).jobs, "the parent is held"
    assert isinstance(await flows.add(bench.bus, bench.queue, flow), Added)
    assert await flows.add(bench.bus, bench.queue, flow) == Duplicate(flow.job.id)
    await end(two, flow.children[0].children[0].job.id)
    await end(two, flow.children[1].job.id)
    await sweep(two)
    await end(one, flow.children[0].job.id)
    await sweep(one)
    assert (await bench.take())[0].id == flow.job.id
    for queue in (bench, one, two):
        await queue.sound()


async def test_a_refused_child_elsewhere_leaves_the_parent_held(bench: Bench) -> None:
    other = there(bench, "far")
    order = NewJob(bench.id().replace("JOB", "ORD"), b"x")
    flow = node(bench, Flow(order, queue=other.queue))
    with pytest.raises(WrongKind):
        await flows.add(bench.bus, bench.queue, flow)
    assert (await state(bench, flow.job.id), await left(bench, flow.job.id)) == ("awaiting_children", 1)
    assert await other.keys() == {}


async def test_another_job_with_a_child_s_id_is_not_taken_for_the_child(bench: Bench) -> None:
    other = there(bench, "far")
    (taken,) = await other.fill([None])
    flow = node(bench, Flow(NewJob(taken, b"x"), queue=other.queue))
    for _ in range(2):
        with pytest.raises(WrongState, match=taken):
            await flows.add(bench.bus, bench.queue, flow)
    assert await state(bench, flow.job.id) == "awaiting_children"


async def test_every_queue_of_a_flow_is_on_the_list_of_queues(bench: Bench) -> None:
    other = there(bench, "far")
    await pair(bench, other)
    assert {bench.queue, other.queue} <= set(await registry.queues(bench.bus))


async def test_a_child_that_lapses_elsewhere_too_often_fails_its_parent(bench: Bench) -> None:
    other = there(bench, "far")
    parent, _ = await pair(bench, other)
    (job,) = await other.take()
    await other.lapse(job)
    await recovery.recover(bench.bus, other.queue, max_stalled=1)
    await sweep(other)
    assert (await bench.row(parent))["last_error"] == f"child {job.id} failed: stalled"


# with workers


async def test_workers_and_their_pumps_run_a_flow_over_three_queues(bench: Bench) -> None:
    queues = [bench, there(bench, "b"), there(bench, "c")]
    leaves = [node(bench, queue=queues[2].queue, lane=lane(i)) for i in range(3)]
    middle = node(bench, *leaves, queue=queues[1].queue)
    flow = node(bench, middle)
    seen: dict[str, object] = {}

    async def handle(job: object) -> Complete:
        seen[job.id] = await flows.children_values(bench.bus, job.queue, job.id)  # type: ignore[attr-defined]
        return Complete(f"result of {job.id}".encode())  # type: ignore[attr-defined]

    await add(bench, flow)
    options = WorkerOptions(beat_ms=200)
    one, two, three = (Worker(bench.bus, b.queue, handle, options=options) for b in queues)
    async with running(one), running(two), running(three):
        await until(lambda: flow.job.id in seen)
    assert seen[middle.job.id] == {leaf.job.id: f"result of {leaf.job.id}".encode() for leaf in leaves}
    assert seen[flow.job.id] == {middle.job.id: f"result of {middle.job.id}".encode()}


async def test_a_pump_delivers_and_says_so(bench: Bench) -> None:
    other = there(bench, "far")
    parent, child = await pair(bench, other)
    await end(other, child)
    told: list[tuple[str, dict[str, object]]] = []
    pump = Pump(bench.bus, other.queue, beat_ms=50, observe=lambda name, data: told.append((name, data)))
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(pump.run())
        await until(lambda: _is(bench, parent, "pending"))
        await until(lambda: told)
        pump.stop()
    assert told == [("pump.delivered", {"queue": other.queue, "entries": 1, "rejected": 0})]


def test_a_refusal_of_a_flow_is_one_of_the_engine_s_errors() -> None:
    for name in ("FlowTooDeep", "FlowCycle", "WorkCancelled"):
        assert issubclass(getattr(__import__("codemojex.engine.errors", fromlist=[name]), name), EngineError)
    assert keyspace.of("q").part("JOB00000000000", "processed") == "emq:{q}:job:JOB00000000000:processed"


# the end of a queue


async def test_obliteration_takes_parents_along_whose_children_are_elsewhere(bench: Bench) -> None:
    other = there(bench, "far")
    flow = node(bench, node(bench, node(bench), queue=other.queue), node(bench, queue=other.queue))
    await add(bench, flow)
    await admin.pause(bench.bus, bench.queue)
    calls = 1
    while not await admin.obliterate(bench.bus, bench.queue, budget=1):
        calls += 1
        assert calls < 10
    assert await bench.keys() == {}
    child = flow.children[1].job.id
    await end(other, child)
    assert (await sweep(other), await bench.keys()) == (1, {})  # nobody waits any more, and no ghost is made


async def test_parents_elsewhere_hear_what_became_of_the_children_of_an_obliterated_queue(bench: Bench) -> None:
    other = there(bench, "far")
    children = [node(bench, queue=other.queue), node(bench, queue=other.queue, ignore=True), node(bench)]
    parent = (await add(bench, node(bench, *children))).id
    done, waiting = children[0].job.id, children[1].job.id
    await end(other, done, Complete(b"result"))
    await admin.pause(bench.bus, other.queue)
    assert await admin.obliterate(bench.bus, other.queue)
    assert await flows.children_values(bench.bus, bench.queue, parent) == {done: b"result"}
    assert await flows.ignored_failures(bench.bus, bench.queue, parent) == {waiting: "removed"}
    assert await left(bench, parent) == 1
    assert set(await other.keys()) == {f"job:{done}:part", f"job:{waiting}:part"}
    assert other.queue not in await registry.queues(bench.bus)


async def test_a_queue_is_not_obliterated_while_a_parent_cannot_be_told(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = there(bench, "far")
    parent, child = await pair(bench, other)
    await end(other, child)
    await admin.pause(bench.bus, other.queue)
    with monkeypatch.context() as patched:

        async def away(*_: object) -> object:
            raise Unavailable("the parent's server is away")

        patched.setattr(outbox, "_tell", away)
        with pytest.raises(Unavailable):
            await admin.obliterate(bench.bus, other.queue)
    assert len(await entries(other)) == 1
    assert await admin.obliterate(bench.bus, other.queue)
    assert await state(bench, parent) == "pending"


# two calls at one moment


class Paused(Connector):
    """A connector that holds back its call of `script` on `queue` until `go`."""

    def __init__(self, bus: Connector, queue: str) -> None:
        super().__init__(bus._transport)
        self._prefix = keyspace.of(queue).prefix
        self.there, self.go = asyncio.Event(), asyncio.Event()

    async def run(self, script: Script, keys: Sequence[str], args: Sequence[Arg] = ()) -> Any:
        if script.name == "flow_add" and keys[0] == self._prefix and args[1] == 0:
            self.there.set()
            await self.go.wait()
        return await super().run(script, keys, args)


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("ended", ["child", "parent", "and again"])
async def test_a_slow_add_never_runs_a_child_again_that_another_add_brought_and_that_ended(
    bench: Bench, first: bool, ended: str
) -> None:
    other = there(bench, "far")
    siblings = [node(bench)] if ended == "child" else []
    flow = node(bench, node(bench, queue=other.queue), *siblings)
    child = flow.children[0].job.id
    slow = Paused(bench.bus, other.queue)
    if not first:  # the parent is there, its part is missing: both calls complete the flow
        broken = Paused(bench.bus, other.queue)
        call = asyncio.create_task(flows.add(broken, bench.queue, flow))
        await broken.there.wait()
        call.cancel()
    async with asyncio.TaskGroup() as tasks:
        late = tasks.create_task(flows.add(slow, bench.queue, flow))
        await asyncio.wait_for(slow.there.wait(), 5)
        for _ in range(2 if ended == "and again" else 1):
            await add(bench, flow)
            await end(other, child)
            await sweep(other)
            if ended != "child":
                await end(bench, flow.job.id)
        slow.go.set()
    assert isinstance(late.result(), Added if first else Duplicate)
    assert await state(other, child) is None
    assert not (await other.claim()).jobs


async def test_a_flow_whose_root_ended_is_a_new_one_with_new_children(bench: Bench) -> None:
    other = there(bench, "far")
    flow = node(bench, node(bench, node(bench, queue=bench.queue), queue=other.queue))
    for _ in range(3):
        await add(bench, flow)
        await end(bench, flow.children[0].children[0].job.id)
        await sweep(bench)
        await end(other, flow.children[0].job.id)
        await sweep(other)
        await end(bench, flow.job.id)


async def test_a_parent_that_does_not_say_its_life_gets_its_child_in_spite_of_an_older_mark(bench: Bench) -> None:
    other = there(bench, "far")
    flow = node(bench, node(bench, queue=other.queue))
    child = flow.children[0].job.id
    await add(bench, flow)
    await end(other, child)
    await sweep(other)
    await end(bench, flow.job.id)
    broken = Paused(bench.bus, other.queue)
    call = asyncio.create_task(flows.add(broken, bench.queue, flow))
    await asyncio.wait_for(broken.there.wait(), 5)
    call.cancel()
    await bench.raw("HDEL", f"job:{flow.job.id}", "flow")  # as another engine adds a parent
    await add(bench, flow)
    assert await state(other, child) == "pending"


# numbers


async def test_waiting_parents_and_untold_ends_are_counted(bench: Bench) -> None:
    other = there(bench, "far")

    async def numbers(of: Bench) -> tuple[int, int]:
        counted = await metrics.counts(bench.bus, of.queue)
        assert (counted.oldest_parent_age_ms is None) is (counted.parents == 0)
        return counted.parents, counted.outbox

    parent, child = await pair(bench, other)
    failing, dying = await pair(bench, other)
    inner = node(bench, node(bench))
    await add(bench, node(bench, inner))
    assert (await numbers(bench), await numbers(other)) == ((4, 0), (0, 0))
    await end(other, child)
    assert (await numbers(bench), await numbers(other)) == ((4, 0), (0, 1))
    await die(other, dying)
    await sweep(other)
    assert [await state(bench, i) for i in (parent, failing)] == ["pending", "dead"]
    assert (await numbers(bench), await numbers(other)) == ((2, 0), (0, 0))
    await admin.remove_job(bench.bus, bench.queue, inner.job.id)  # its parent fails with it
    assert await numbers(bench) == (0, 0)
    waiting = (await pair(bench, other))[0]
    assert await numbers(bench) == (1, 0)
    await cancel.request(bench.bus, bench.queue, waiting, "enough")
    assert await numbers(bench) == (0, 0)


async def test_the_audit_puts_the_list_of_waiting_parents_right(bench: Bench) -> None:
    parent, _ = await pair(bench, there(bench, "far"))
    await bench.raw("ZREM", "parents", parent)
    await bench.raw("ZADD", "parents", 1, bench.id())
    await bench.sound()
    await audit(bench.bus, bench.queue, repair=True)
    assert await bench.raw("ZRANGE", "parents", 0, -1) == [parent.encode()]
