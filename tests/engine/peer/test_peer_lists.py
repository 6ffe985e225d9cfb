"""Lists of ours that a peer does not keep: its traces in them are found a page at a time and put right."""

from __future__ import annotations

import asyncio

from codemojex.engine.flows import flows
from codemojex.engine.inspection import admin, metrics
from codemojex.engine.inspection.audit import audit
from codemojex.engine.jobs.outcome import Complete
from codemojex.engine.maintenance.pump import Pump
from codemojex.engine.maintenance.visits import LEFTOVER_MS, LISTS, Visits
from codemojex.engine.repeats import repeats
from codemojex.engine.repeats.recurrence import All, Cron, Every
from codemojex.engine.repeats.repeats import Repeat
from tests.engine.bench import Bench, lane
from tests.engine.flow_bench import add, end, left, node, state
from tests.support.waiting import until

HOUR = 3_600_000
PEER_COMPLETES = """
local P, id = KEYS[1], ARGV[1]
local row = P .. 'job:' .. id
local parent = redis.call('HGET', row, 'parent')
redis.call('ZREM', P .. 'pending', id)
if parent and redis.call('HSETNX', P .. 'job:' .. parent .. ':processed', id, 'r') == 1
  and redis.call('DECR', P .. 'job:' .. parent .. ':dependencies') <= 0 then
  redis.call('ZADD', P .. 'pending', 0, parent)
  redis.call('HSET', P .. 'job:' .. parent, 'state', 'pending')
end
redis.call('DEL', row)
"""
# The peer's pump: a record without every_ms is a deleted one, everything else is fired flat with its template.
PEER_FIRES = """
local P, now, fired = KEYS[1], tonumber(ARGV[1]), {}
for _, name in ipairs(redis.call('ZRANGEBYSCORE', P .. 'repeat', '-inf', now)) do
  local every = redis.call('HGET', P .. 'repeat:' .. name, 'every_ms')
  if every then
    fired[#fired + 1] = name
    redis.call('ZADD', P .. 'repeat', now + every, name)
  else
    redis.call('ZREM', P .. 'repeat', name)
  end
end
return fired
"""
OURS = {
    "cron": Repeat("cron", Cron("30 7 * * *", "Europe/Berlin"), b"t"),
    "lane": Repeat("lane", Every(HOUR), b"t", lane=lane(1)),
    "until": Repeat("until", Every(HOUR), b"t", until_ms=4_000_000_000_000),
    "policy": Repeat("policy", Every(HOUR), b"t", catch_up=All(3)),
    "tries": Repeat("tries", Every(HOUR), b"t", max_attempts=2),
    "time": Repeat("time", Every(HOUR), b"t", timeout_ms=5_000),
}
FAR_MS = 9_000_000_000_000


async def peer(bench: Bench, command: str, *args: str | int) -> list[bytes]:
    return await bench.bus.execute("EVAL", command, 1, bench.space.prefix, *args)


async def tour(bench: Bench) -> int:
    """One page of each list; how many members were put right."""
    visits = Visits(bench.bus, bench.queue)
    return sum([(await visits.next())[1] for _ in LISTS])


async def members(bench: Bench, key: str) -> set[str]:
    return {member.decode() for member in await bench.raw("ZRANGE", key, 0, -1)}


async def register_all(bench: Bench) -> None:
    await repeats.register(bench.bus, bench.queue, Repeat("plain", Every(HOUR), b"t"), first_in_ms=HOUR)
    for new in OURS.values():
        assert await repeats.register(bench.bus, bench.queue, new, first_in_ms=HOUR)


async def test_a_peer_sees_only_the_repeats_that_it_fires_as_we_do(bench: Bench) -> None:
    await register_all(bench)
    assert await peer(bench, PEER_FIRES, FAR_MS) == [b"plain"]
    assert sorted(await repeats.names(bench.bus, bench.queue)) == sorted(["plain", *OURS])
    for name, registered in OURS.items():
        found = await repeats.get(bench.bus, bench.queue, name)
        assert found is not None
        assert (found.schedule, found.lane, found.catch_up) == (
            registered.schedule,
            registered.lane,
            registered.catch_up,
        )


async def test_a_repeat_changes_its_list_when_a_peer_can_read_it_no_more_or_again(bench: Bench) -> None:
    await register_all(bench)
    slot = await bench.raw("ZSCORE", "repeat_ours", "lane")
    assert await repeats.update(bench.bus, bench.queue, Repeat("lane", Every(HOUR), b"t"))
    assert await repeats.update(bench.bus, bench.queue, Repeat("plain", Every(HOUR), b"t", max_attempts=1))
    assert await members(bench, "repeat") == {"lane"}
    assert await bench.raw("ZSCORE", "repeat", "lane") == slot, "the coming slot stays"
    assert await bench.raw("ZSCORE", "repeat_ours", "lane") is None
    for name in ("lane", "plain"):
        assert await repeats.cancel(bench.bus, bench.queue, name)
        assert not await repeats.cancel(bench.bus, bench.queue, name)
    assert await members(bench, "repeat") == set()
    assert await members(bench, "repeat_ours") == OURS.keys() - {"lane"}


async def test_records_of_before_still_fire_and_move_to_our_list(bench: Bench) -> None:
    await register_all(bench)
    for name in OURS:  # as they stood in the list that a peer reads
        await bench.raw("ZREM", "repeat_ours", name)
        await bench.raw("ZADD", "repeat", FAR_MS, name)
    await bench.raw("ZADD", "repeat", "XX", 5, "cron")
    assert set(await repeats.names(bench.bus, bench.queue)) == {"plain", *OURS}
    assert list((await repeats.fire_due(bench.bus, bench.queue)).jobs) == ["cron"]
    assert await members(bench, "repeat_ours") == {"cron"}
    assert await tour(bench) == len(OURS) - 1
    assert await members(bench, "repeat") == {"plain"}
    assert await bench.raw("ZSCORE", "repeat_ours", "lane") == FAR_MS
    assert await tour(bench) == 0


async def test_the_lists_of_repeats_are_forgotten_with_the_queue(bench: Bench) -> None:
    await register_all(bench)
    await admin.pause(bench.bus, bench.queue)
    async with asyncio.timeout(10):
        while not await admin.obliterate(bench.bus, bench.queue):
            pass
    assert await bench.keys() == {}


async def test_a_parent_that_a_peer_released_leaves_the_list_of_those_that_wait(bench: Bench) -> None:
    flow = node(bench, node(bench))
    waits = (await add(bench, node(bench, node(bench)))).id
    await add(bench, flow)
    await peer(bench, PEER_COMPLETES, flow.children[0].job.id)
    assert (await metrics.counts(bench.bus, bench.queue)).parents == 2
    pump = Pump(bench.bus, bench.queue, beat_ms=10)
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(pump.run())
        try:
            await until(lambda: _parents(bench, 1))
        finally:
            pump.stop()
    assert await members(bench, "parents") == {waits}
    assert await state(bench, waits) == "awaiting_children"
    assert set(await flows.children_values(bench.bus, bench.queue, flow.job.id)) == {flow.children[0].job.id}
    await bench.sound()


async def _parents(bench: Bench, n: int) -> bool:
    return (await metrics.counts(bench.bus, bench.queue)).parents == n


async def test_what_a_peer_leaves_of_a_finished_parent_gets_a_life_time(bench: Bench) -> None:
    ours, theirs = node(bench, node(bench)), node(bench, node(bench))
    await add(bench, ours)
    await add(bench, theirs)
    await end(bench, ours.children[0].job.id, Complete(b"r"))
    await peer(bench, PEER_COMPLETES, theirs.children[0].job.id)
    for flow in (ours, theirs):
        await peer(bench, PEER_COMPLETES, flow.job.id)
    await tour(bench)
    for flow in (ours, theirs):
        for record in ("dependencies", "processed"):
            assert 0 < await bench.raw("PTTL", f"job:{flow.job.id}:{record}") <= LEFTOVER_MS
    assert not {"kin", "parents"} & set(await bench.keys())
    await add(bench, ours)  # the same flow again
    assert await left(bench, ours.job.id) == 1
    assert await bench.raw("PTTL", f"job:{ours.job.id}:dependencies") == -1


async def test_a_parent_that_lives_keeps_its_records(bench: Bench) -> None:
    flow = node(bench, node(bench))
    await add(bench, flow)
    assert await tour(bench) == 0
    await end(bench, flow.children[0].job.id, Complete(b"r"))
    assert await tour(bench) == 0
    assert await bench.raw("PTTL", f"job:{flow.job.id}:processed") == -1
    assert await members(bench, "kin") == {flow.job.id}
    await end(bench, flow.job.id)
    assert "kin" not in await bench.keys()
    assert not await audit(bench.bus, bench.queue)


async def test_the_audit_brings_back_what_a_peers_pump_removed_and_knows_both_lists(bench: Bench) -> None:
    await register_all(bench)
    for name in ("cron", "lane"):  # as they stood in the list that a peer reads
        await bench.raw("ZREM", "repeat_ours", name)
        await bench.raw("ZADD", "repeat", 5, name)
    await peer(bench, PEER_FIRES, 6)
    await bench.raw("ZREM", "repeat_ours", "until")
    await bench.raw("ZADD", "repeat", FAR_MS, "until")
    await bench.raw("ZADD", "repeat_ours", 7, "plain")
    await bench.raw("DEL", "repeat:time")
    expected = [
        ("cron", "repeat: has a record, but no slot, and never fires"),
        ("lane", "repeat: stands where a peer would remove it, or fire it in its own way"),
        ("plain", "repeat: stands in both lists"),
        ("until", "repeat: stands where a peer would remove it, or fire it in its own way"),
    ]
    for repair in (False, True):
        found = await audit(bench.bus, bench.queue, repair=repair)
        assert [(violation.subject, violation.what) for violation in found] == expected
    await bench.sound()
    assert await members(bench, "repeat") == {"plain"}
    assert await members(bench, "repeat_ours") == OURS.keys() - {"time"}
    brought = await repeats.get(bench.bus, bench.queue, "cron")
    assert brought is not None
    assert brought.next_ms is not None
    seconds, _ = await bench.bus.execute("TIME")
    assert int(seconds) * 1000 < brought.next_ms <= (int(seconds) + 25 * 3600) * 1000
