"""Two makes of pump on one outbox: the peer trims what it has not delivered, and what was lost is found again."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from codemojex.engine.errors import InvalidValue
from codemojex.engine.flows import flows
from codemojex.engine.inspection import lost_ends
from codemojex.engine.inspection.audit import audit
from codemojex.engine.jobs.outcome import Complete, Discard
from codemojex.engine.maintenance.pump import Pump
from codemojex.engine.repeats.recurrence import Every
from codemojex.engine.repeats.repeats import Repeat, register
from codemojex.engine.worker.worker import WorkerOptions
from tests.engine.bench import Bench
from tests.engine.flow_bench import add, end, left, node, outbox, state, sweep, there
from tests.support.waiting import until


async def old(bench: Bench, *parents: str) -> None:
    """The parents have waited for longer than it takes to add a flow."""
    for parent in parents:
        assert await bench.raw("ZADD", "parents", "XX", "CH", 1, parent) == 1


async def peer_reads(bench: Bench, n: int) -> list[bytes]:
    return await bench.raw("LRANGE", "flow:outbox", 0, n - 1)


async def peer_trims(bench: Bench, n: int) -> None:
    """As the peer does: without a look at what stands there now."""
    await bench.raw("LTRIM", "flow:outbox", n, -1)


async def split(bench: Bench, far: Bench, children: int = 1, *, ignore: bool = False) -> tuple[str, list[str]]:
    flow = node(bench, *[node(bench, queue=far.queue, ignore=ignore) for _ in range(children)])
    return (await add(bench, flow)).id, [child.job.id for child in flow.children]


async def lose(bench: Bench, far: Bench) -> tuple[str, str]:
    """A peer's pump and ours on one outbox: the end of the last child is cut, and its parent waits."""
    first, [child] = await split(bench, far)
    await end(far, child, Complete(b"r"))
    read = await peer_reads(far, 10)
    assert await sweep(far) == 1, "ours pops in between"
    second, [lost] = await split(bench, far)
    await end(far, lost, Complete(b"r"))
    await peer_trims(far, len(read))
    assert await outbox(far) == []
    assert await state(bench, first) == "pending"
    return second, lost


async def findings(bench: Bench, *, repair: bool = False) -> list[tuple[str, str]]:
    return [(found.subject, found.what) for found in await audit(bench.bus, bench.queue, repair=repair)]


async def test_a_pump_that_leaves_the_outbox_to_a_peer_does_the_rest(bench: Bench) -> None:
    far = there(bench, "far")
    _, [child] = await split(bench, far)
    await end(far, child)
    (late,) = [far.job(delay_ms=60_000)]
    await far.put(late)
    await far.due(late.id)
    await register(far.bus, far.queue, Repeat("tick", Every(3_600_000), b"t"))
    pump = Pump(far.bus, far.queue, beat_ms=10, deliver=False)
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(pump.run())
        try:
            await until(lambda: _count(far, 2))
        finally:
            pump.stop()
    assert len(await outbox(far)) == 1, "the peer's pump will tell it"


async def _count(bench: Bench, n: int) -> bool:
    return await bench.raw("ZCARD", "pending") == n


async def test_a_worker_leaves_the_outbox_too_when_asked(bench: Bench) -> None:
    assert WorkerOptions().deliver
    with pytest.raises(InvalidValue, match="deliver"):
        WorkerOptions(deliver=1)  # type: ignore[arg-type]


async def test_an_end_that_a_peer_trimmed_is_found_and_its_parent_is_a_dead_letter_after_the_repair(
    bench: Bench,
) -> None:
    far = there(bench, "far")
    parent, _ = await lose(bench, far)
    assert await findings(bench) == [], "too young: a flow is added part by part"
    await old(bench, parent)
    what = "row: waits for 1 children, 1 of them stand nowhere: no row, no end on its way"
    assert await findings(bench) == [(parent, what)]
    assert await findings(bench, repair=True) == [(parent, what)]
    assert await state(bench, parent) == "dead"
    assert "1 children were lost" in (await bench.row(parent))["last_error"]
    assert await findings(bench) == []


async def test_a_parent_hears_of_a_dead_child_whose_entry_was_lost(bench: Bench) -> None:
    far = there(bench, "far")
    strict, [one] = await split(bench, far)
    lenient, [two] = await split(bench, far, ignore=True)
    for child in (one, two):
        await end(far, child, Discard("boom"))
    await far.raw("DEL", "flow:outbox")
    await old(bench, strict, lenient)
    said = "row: its child {} is a dead letter, and it has not heard of it"
    expected = sorted([(strict, said.format(one)), (lenient, said.format(two))])
    assert sorted(await findings(bench, repair=True)) == expected
    assert (await state(bench, strict), await state(bench, lenient)) == ("dead", "pending")
    assert await flows.ignored_failures(bench.bus, bench.queue, lenient) == {two: "boom"}
    assert await findings(bench) == []


async def test_what_stands_anywhere_is_not_lost(bench: Bench) -> None:
    far = there(bench, "far")
    parent, children = await split(bench, far, 4)
    await end(far, children[0], Complete(b"r"))
    assert await sweep(far) == 1  # heard
    await end(far, children[1], Complete(b"r"))  # on its way
    await end(far, children[2], Discard("no"))  # on its way
    await old(bench, parent)
    assert await findings(bench) == []
    assert await left(bench, parent) == 3


async def test_some_of_several_children_were_lost(bench: Bench) -> None:
    far = there(bench, "far")
    parent, children = await split(bench, far, 3, ignore=True)
    await end(far, children[0], Complete(b"r"))
    await end(far, children[1], Discard("no"))
    await far.raw("DEL", "flow:outbox")
    await old(bench, parent)
    assert len(await findings(bench, repair=True)) == 2
    assert await state(bench, parent) == "dead"
    assert await flows.ignored_failures(bench.bus, bench.queue, parent) == {children[1]: "no"}


async def test_a_parent_that_hears_meanwhile_is_not_judged(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    far = there(bench, "far")
    parent, [child] = await split(bench, far)
    await end(far, child, Complete(b"r"))
    await old(bench, parent)
    real = lost_ends._search  # pyright: ignore[reportPrivateUsage]

    async def search(*args: Any) -> None:
        entry = await far.raw("LPOP", "flow:outbox")  # read by a pump, and not yet told
        await real(*args)
        if entry:
            await far.raw("LPUSH", "flow:outbox", entry)
            await sweep(far)

    monkeypatch.setattr(lost_ends, "_search", search)
    assert await findings(bench, repair=True) == []
    assert await state(bench, parent) == "pending"


async def test_one_look_judges_no_parent_that_heard_of_a_child_during_it(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    far = there(bench, "far")
    parent, children = await split(bench, far, 2)
    for child in children:
        await end(far, child, Complete(b"r"))
    await old(bench, parent)
    entries = await outbox(far)
    await far.raw("DEL", "flow:outbox")  # a pump has read both

    async def search(*_: Any) -> None:
        await far.raw("RPUSH", "flow:outbox", entries[0])
        await sweep(far)

    monkeypatch.setattr(lost_ends, "_search", search)
    assert await lost_ends._look(bench.bus, bench.queue, [parent]) == {}  # pyright: ignore[reportPrivateUsage]


async def test_two_looks_that_differ_judge_nothing(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    far = there(bench, "far")
    parent, children = await split(bench, far, 2)
    for child in children:
        await end(far, child, Complete(b"r"))
    await old(bench, parent)
    entries = await outbox(far)
    await far.raw("DEL", "flow:outbox")
    real, looks = lost_ends._search, list[int]()  # pyright: ignore[reportPrivateUsage]

    async def search(*args: Any) -> None:
        looks.append(len(looks))
        if len(looks) == 2:
            await far.raw("RPUSH", "flow:outbox", entries[0])
        await real(*args)

    monkeypatch.setattr(lost_ends, "_search", search)
    assert await findings(bench, repair=True) == []
    assert await state(bench, parent) == "awaiting_children"
