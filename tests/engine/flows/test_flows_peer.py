"""Another engine that follows the protocol shares flows: it ends our children, delivers our entries, and we do its."""

from __future__ import annotations

from typing import Any

import pytest

from codemojex.engine.flows import flows
from codemojex.engine.jobs.outcome import Complete, Discard
from tests.engine.bench import Bench
from tests.engine.flow_bench import add, held, left, node, outbox, settle, state, sweep, there

# A plain engine as section 5.9 of the protocol describes it: it counts only what was active, and knows no `children`.
COMPLETE = """
local P, id, result = KEYS[1], ARGV[1], ARGV[2]
local row = P .. 'job:' .. id
local parent = redis.call('HGET', row, 'parent')
if redis.call('ZREM', P .. 'active', id) == 1 then
  redis.call('HSET', P .. 'job:' .. parent .. ':processed', id, result)
  if redis.call('DECR', P .. 'job:' .. parent .. ':dependencies') <= 0 then
    redis.call('ZADD', P .. 'pending', 0, parent)
    redis.call('HSET', P .. 'job:' .. parent, 'state', 'pending')
  end
end
redis.call('DEL', row)
"""
ADD = """
local P, parent = KEYS[1], ARGV[1]
redis.call('HSET', P .. 'job:' .. parent, 'state', 'awaiting_children', 'attempts', '0', 'payload', 'p')
redis.call('SET', P .. 'job:' .. parent .. ':dependencies', #ARGV - 1)
for i = 2, #ARGV do
  redis.call('HSET', P .. 'job:' .. ARGV[i], 'state', 'pending', 'attempts', '0', 'payload', 'c', 'parent', parent)
  redis.call('ZADD', P .. 'pending', 0, ARGV[i])
end
"""
DELIVER = """
local P, parent, child, result = KEYS[1], ARGV[1], ARGV[2], ARGV[3]
if redis.call('HSETNX', P .. 'job:' .. parent .. ':processed', child, result) == 0 then return 0 end
if redis.call('DECR', P .. 'job:' .. parent .. ':dependencies') <= 0 then
  redis.call('ZADD', P .. 'pending', 0, parent)
  redis.call('HSET', P .. 'job:' .. parent, 'state', 'pending')
end
return 1
"""


async def peer(bench: Bench, command: str, *args: Any) -> Any:
    return await bench.bus.execute("EVAL", command, 1, bench.space.prefix, *args)


@pytest.mark.parametrize("ours_first", [True, False])
async def test_each_engine_ends_a_child_and_the_parent_runs_once(bench: Bench, ours_first: bool) -> None:
    flow = node(bench, node(bench), node(bench))
    parent = (await add(bench, flow)).id
    jobs = await bench.take(2)
    for job, ours in zip(jobs, [ours_first, not ours_first], strict=True):
        assert await state(bench, parent) == "awaiting_children"
        await (settle(bench, job, Complete(b"r")) if ours else peer(bench, COMPLETE, job.id, "r"))
        await bench.sound()
    assert await flows.children_values(bench.bus, bench.queue, parent) == {job.id: b"r" for job in jobs}
    assert [job.id for job in (await bench.claim(5)).jobs] == [parent]


@pytest.mark.parametrize("fate", [Complete(b"r"), Discard("no")], ids=["complete", "die"])
async def test_a_flow_that_a_peer_added_is_worked_by_us(bench: Bench, fate: Complete | Discard) -> None:
    parent, child = bench.id(), bench.id()
    await peer(bench, ADD, parent, child)
    await bench.sound()
    await settle(bench, await held(bench, child), fate)
    # A link without a policy fails its parent.
    assert await state(bench, parent) == ("pending" if isinstance(fate, Complete) else "dead")
    await bench.sound()


async def test_a_peer_delivers_our_entries_and_we_deliver_what_it_delivered_already(bench: Bench) -> None:
    other = there(bench, "far")
    flow = node(bench, node(bench, queue=other.queue), node(bench, queue=other.queue))
    parent = (await add(bench, flow)).id
    for child in flow.children:
        await settle(other, await held(other, child.job.id), Complete(b"r"))
    first = (await outbox(other))[0].split(b"\0", 3)
    assert (first[0].decode(), first[1].decode()) == (bench.queue, parent)
    assert await peer(bench, DELIVER, *first[1:]) == 1
    assert await sweep(other) == 2
    assert (await left(bench, parent), await state(bench, parent)) == (0, "pending")
    assert await peer(bench, DELIVER, *first[1:]) == 0
    await bench.sound()


async def test_what_a_peer_left_of_an_earlier_life_is_not_counted_in_the_next(bench: Bench) -> None:
    flow = node(bench, node(bench))
    parent, child = flow.job.id, flow.children[0].job.id
    for record in ("processed", "failed", "unsuccessful"):
        await bench.raw("HSET", f"job:{parent}:{record}", child, "old")
    await add(bench, flow)
    await settle(bench, await held(bench, child), Complete(b"new"))
    assert await flows.children_values(bench.bus, bench.queue, parent) == {child: b"new"}
    assert await flows.ignored_failures(bench.bus, bench.queue, parent) == {}
    assert await state(bench, parent) == "pending"
