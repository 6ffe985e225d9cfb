"""An operator's verbs on one lane."""

from __future__ import annotations

import pytest

from codemojex.engine.errors import InvalidId, InvalidValue
from codemojex.engine.inspection import admin
from codemojex.engine.lanes import lanes, limits
from tests.engine.bench import Bench, lane


async def test_a_paused_lane_keeps_its_backlog_and_resumes_where_it_was(bench: Bench) -> None:
    made = await bench.fill([lane(1), lane(1), lane(2)])
    await lanes.pause(bench.bus, bench.queue, lane(1))
    await lanes.pause(bench.bus, bench.queue, lane(1))
    await bench.sound()
    assert [job.lane for job in (await bench.claim(5)).jobs] == [lane(2)]
    assert await lanes.depth(bench.bus, bench.queue, lane(1)) == 2
    await bench.bus.execute("DEL", bench.space.key("wake"))
    await lanes.resume(bench.bus, bench.queue, lane(1))
    await lanes.resume(bench.bus, bench.queue, lane(1))
    assert (await bench.ring(), await bench.wakes()) == ([lane(1)], 1)
    assert [job.id for job in await bench.take(2)] == made[:2]
    await bench.sound()


async def test_a_lane_paused_while_full_stays_out_when_a_seat_is_free(bench: Bench) -> None:
    await lanes.limit(bench.bus, bench.queue, lane(1), 1)
    await bench.fill([lane(1)] * 2)
    (job,) = await bench.take()
    await lanes.pause(bench.bus, bench.queue, lane(1))
    await bench.settle(job)
    assert await bench.ring() == []
    await lanes.resume(bench.bus, bench.queue, lane(1))
    assert await bench.ring() == [lane(1)]
    await bench.sound()


async def test_depths_are_counted_per_lane(bench: Bench) -> None:
    await bench.fill([lane(1), lane(1), lane(2)])
    assert await lanes.depths(bench.bus, bench.queue, [lane(2), lane(1), lane(3)]) == [1, 2, 0]
    assert await lanes.names(bench.bus, bench.queue) == sorted([lane(1), lane(2)])
    with pytest.raises(InvalidValue):
        await lanes.depths(bench.bus, bench.queue, [lane(1)] * 1001)


async def test_a_lane_is_known_while_it_has_work_or_a_setting(bench: Bench) -> None:
    await bench.fill([lane(i) for i in range(4)])
    await lanes.pause(bench.bus, bench.queue, lane(0))
    await lanes.park(bench.bus, bench.queue, lane(1), 60_000)
    await bench.take()
    await lanes.limit(bench.bus, bench.queue, lane(4), 3)
    await lanes.weight(bench.bus, bench.queue, lane(5), 3)
    await limits.set_lane_rate(bench.bus, bench.queue, 1, lane=lane(6))
    assert await lanes.names(bench.bus, bench.queue) == sorted(lane(i) for i in range(7))
    assert len(await lanes.names(bench.bus, bench.queue, 3)) == 3


async def test_a_parked_lane_rests_alone_and_a_longer_rest_stays(bench: Bench) -> None:
    await bench.fill([lane(1), lane(2)])
    await lanes.park(bench.bus, bench.queue, lane(1), 60_000)
    await lanes.park(bench.bus, bench.queue, lane(1), 10)
    assert (await lanes.explain(bench.bus, bench.queue, lane(1))).rests_for_ms > 50_000
    assert [job.lane for job in (await bench.claim(5)).jobs] == [lane(2)]
    await bench.sound()
    await lanes.park(bench.bus, bench.queue, lane(1), 0)
    assert [job.lane for job in (await bench.claim(5)).jobs] == [lane(1)]
    await bench.sound()


async def test_a_resting_lane_that_a_peer_put_into_the_ring_is_not_served(bench: Bench) -> None:
    await bench.fill([lane(1), lane(2)])
    await lanes.park(bench.bus, bench.queue, lane(1), 60_000)
    await bench.raw("RPUSH", "ring", lane(1))
    assert [job.lane for job in (await bench.claim(5)).jobs] == [lane(2)]
    await bench.sound()


async def test_a_waiting_job_moves_and_its_seat_is_charged_to_the_new_lane(bench: Bench) -> None:
    (job_id,) = await bench.fill([lane(1)])
    assert await lanes.move(bench.bus, bench.queue, job_id, lane(2)) == "moved"
    assert (await bench.row(job_id))["group"] == lane(2)
    assert await bench.ring() == [lane(2)]
    await bench.sound()
    assert await lanes.move(bench.bus, bench.queue, job_id, lane(2)) == "noop"
    await bench.take()
    assert await bench.raw("HGETALL", "gactive") == {lane(2).encode(): b"1"}
    assert await lanes.move(bench.bus, bench.queue, job_id, lane(1)) == "not_pending"
    (flat,) = await bench.fill([None])
    assert await lanes.move(bench.bus, bench.queue, flat, lane(1)) == "not_found"
    assert await lanes.move(bench.bus, bench.queue, bench.id(), lane(1)) == "not_found"
    await bench.sound()


async def test_a_move_that_empties_a_lane_lets_it_forget_its_default_ceiling(bench: Bench) -> None:
    await limits.set_default_lane_limit(bench.bus, bench.queue, 1)
    (job_id,) = await bench.fill([lane(1)])
    await lanes.move(bench.bus, bench.queue, job_id, lane(2))
    assert await bench.raw("HKEYS", "glimit") == [lane(2).encode()]
    await bench.sound()


async def test_draining_a_lane_leaves_its_sibling_and_what_is_in_flight(bench: Bench) -> None:
    made = await bench.fill([lane(1)] * 700 + [lane(2)] * 2)
    (held,) = await bench.take()
    await bench.raw("RPUSH", f"job:{made[1]}:logs", "line")
    await bench.raw("ZADD", "repeat", 1, "daily")
    assert await lanes.drain(bench.bus, bench.queue, lane(1)) == 699
    assert await admin.get_job(bench.bus, bench.queue, made[1]) is None
    assert await bench.raw("EXISTS", f"job:{made[1]}:logs") == 0
    assert (await bench.ring(), held.lane) == ([lane(2)], lane(1))
    assert await bench.raw("HGETALL", "gactive") == {lane(1).encode(): b"1"}
    assert await bench.raw("EXISTS", "repeat") == 1
    await bench.sound()


async def test_draining_stops_at_its_limit(bench: Bench) -> None:
    await bench.fill([lane(1)] * 5)
    assert await lanes.drain(bench.bus, bench.queue, lane(1), 3) == 3
    assert await lanes.depth(bench.bus, bench.queue, lane(1)) == 2
    await bench.sound()


# explain


async def test_a_lane_that_is_served_has_no_reason_against_it(bench: Bench) -> None:
    await bench.fill([lane(1), lane(2)])
    answer = await lanes.explain(bench.bus, bench.queue, lane(2))
    assert (answer.reasons, answer.ahead, answer.depth, answer.active) == ((), 1, 1, 0)


async def test_every_reason_against_a_lane_is_named(bench: Bench) -> None:
    async def reasons(name: str) -> str:
        return " | ".join((await lanes.explain(bench.bus, bench.queue, name)).reasons)

    assert await reasons(lane(1)) == "empty: nothing waits in it"
    await bench.fill([lane(1)] * 3)
    await limits.set_rate(bench.bus, bench.queue, 1, 60_000)
    await limits.set_concurrency(bench.bus, bench.queue, 1)
    await lanes.limit(bench.bus, bench.queue, lane(1), 1)
    await bench.take()
    await lanes.pause(bench.bus, bench.queue, lane(1))
    await lanes.park(bench.bus, bench.queue, lane(1), 60_000)
    await admin.pause(bench.bus, bench.queue)
    text = await reasons(lane(1))
    for part in ("paused: ", "at its ceiling: 1", "resting for ", "queue paused", "over budget", "concurrency: 1"):
        assert part in text


async def test_a_lane_lost_from_the_ring_is_noticed(bench: Bench) -> None:
    await bench.fill([lane(1)])
    await bench.bus.execute("DEL", bench.space.key("ring"))
    assert "audit" in (await lanes.explain(bench.bus, bench.queue, lane(1))).reasons[0]


async def test_a_lane_must_be_a_branded_id(bench: Bench) -> None:
    for call in (lanes.pause, lanes.resume, lanes.depth, lanes.drain, lanes.explain):
        with pytest.raises(InvalidId):
            await call(bench.bus, bench.queue, "room")


async def test_a_ceiling_that_the_claim_brings_holds_without_the_queues_settings(bench: Bench) -> None:
    made = await bench.fill([lane(1), lane(1), lane(1), lane(2)])
    held = list((await bench.claim(10, lane_limit=1)).jobs)
    assert [job.id for job in held] == [made[0], made[3]]
    assert (await bench.claim(10, lane_limit=1)).jobs == []
    await bench.sound()
    await bench.settle(held[0])
    assert [job.id for job in (await bench.claim(10, lane_limit=1)).jobs] == [made[1]]
    await bench.settle(held[1])
    assert await bench.raw("HKEYS", "glimit") == [lane(1).encode()], "an idle lane keeps no ceiling"
    await bench.sound()


async def test_a_ceiling_that_the_claim_brings_takes_over_lanes_that_were_claimed_without_one(bench: Bench) -> None:
    made = await bench.fill([lane(1)] * 4)
    first, second = await bench.take(2)
    assert (await bench.claim(10, lane_limit=1)).jobs == []
    await bench.settle(first)
    assert (await bench.claim(10, lane_limit=1)).jobs == []
    await bench.settle(second)
    assert [job.id for job in (await bench.claim(10, lane_limit=1)).jobs] == [made[2]]
    await bench.sound()


async def test_a_lanes_own_ceiling_goes_before_that_of_the_claim(bench: Bench) -> None:
    await lanes.limit(bench.bus, bench.queue, lane(1), 2)
    await bench.fill([lane(1)] * 4)
    assert len((await bench.claim(10, lane_limit=1)).jobs) == 2
    await bench.sound()


async def test_a_ceiling_above_one_holds_over_the_turns_of_one_claim(bench: Bench) -> None:
    await bench.fill([lane(1)] * 5)
    assert len((await bench.claim(10, lane_limit=3)).jobs) == 3
    await bench.sound()
