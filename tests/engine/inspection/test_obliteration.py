"""An obliteration goes step by step within its budget, and in the end no key of the queue is left."""

from __future__ import annotations

import pytest

from codemojex.engine.flows import flows
from codemojex.engine.flows.flows import Flow
from tests.engine.bench import Bench, lane


@pytest.mark.parametrize("place", ["paused", "parents"])
async def test_an_obliteration_does_a_bounded_part_of_its_work_in_one_call(bench: Bench, place: str) -> None:
    await bench.raw("HSET", "meta", "paused", 1)
    if place == "paused":
        await bench.raw("SADD", "paused", *(lane(n) for n in range(7)))
    else:
        await bench.raw("ZADD", "parents", *(part for n in range(7) for part in (n, bench.id())))
    for more, left in ((1, 4), (1, 1), (0, 0)):
        answer = await bench.run("obliterate", 0, 3)
        assert (answer, await bench.raw("SCARD" if place == "paused" else "ZCARD", place)) == (more, left)
    assert await bench.keys() == {}


@pytest.mark.parametrize("budget", [1, 2, 7])
async def test_an_obliteration_in_small_steps_leaves_nothing_wherever_a_lane_stands(bench: Bench, budget: int) -> None:
    for number, place in ((1, "ring"), (2, "ring"), (3, "paused"), (4, "resting"), (5, "gactive")):
        await bench.fill([lane(number)] * 5)
        await bench.raw("SET", f"pace:{lane(number)}", 1)
        if place != "ring":
            await bench.raw("LREM", "ring", 0, lane(number))
        if place == "paused":
            await bench.raw("SADD", "paused", lane(number))
        if place == "resting":
            await bench.raw("ZADD", "resting", 1, lane(number))
        if place == "gactive":
            await bench.raw("HSET", "gactive", lane(number), 1)
    await bench.raw("HSET", "meta", "paused", 1)
    await bench.raw("HSET", "metrics:blocked", "count", 1)
    calls = 1
    while await bench.run("obliterate", 0, budget):
        calls += 1
        assert calls < 60
    assert calls == {1: 31, 2: 16, 7: 5}[budget], "25 jobs and 5 lanes are the work"
    assert await bench.keys() == {}


async def test_an_obliteration_takes_waiting_parents_along_whether_they_are_listed_or_not(bench: Bench) -> None:
    for listed in (True, False):
        below = Flow(bench.job(), [Flow(bench.job(lane=lane(1)))])
        await flows.add(bench.bus, bench.queue, Flow(bench.job(), [below]))
        if not listed:  # a peer does not list them
            await bench.raw("DEL", "parents")
        await bench.raw("HSET", "meta", "paused", 1)
        assert await bench.run("obliterate", 0, 100) == 0
        assert await bench.keys() == {}


@pytest.mark.parametrize("first", [0, 1])
async def test_an_obliterated_parent_leaves_no_dead_grandparent_behind(bench: Bench, first: int) -> None:
    below = Flow(bench.job(), [], f"{bench.queue}.below")
    await flows.add(bench.bus, bench.queue, Flow(bench.job(), [Flow(bench.job(), [below])]))
    await bench.raw("HSET", "meta", "paused", 1)
    parents = await bench.raw("ZRANGE", "parents", 0, -1)
    assert len(parents) == 2
    await bench.raw("ZADD", "parents", "XX", 1, parents[first])
    assert await bench.run("obliterate", 0, 100) == 0
    assert await bench.keys() == {}
