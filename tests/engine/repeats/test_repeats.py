"""A repeated job fires once per slot, whoever looks and however late."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator

import pytest

from codemojex.engine import ids
from codemojex.engine.errors import InvalidInput, InvalidName, InvalidValue, WrongState
from codemojex.engine.inspection import admin
from codemojex.engine.jobs import claims
from codemojex.engine.maintenance.pump import Pump
from codemojex.engine.repeats import repeats
from codemojex.engine.repeats.recurrence import All, Cron, Every, One, Skip
from codemojex.engine.repeats.repeats import Repeat
from codemojex.engine.scripts import ENGINE
from codemojex.engine.transport.connector import Connector
from tests.engine.bench import Bench, lane

HOUR = 3_600_000


async def register(bench: Bench, name: str = "tick", every_ms: int = HOUR, **more: object) -> bool:
    first = {key: more.pop(key) for key in ("first_in_ms", "first_at_ms") if key in more}
    new = Repeat(name, Every(every_ms), b"t", **more)  # type: ignore[arg-type]
    return await repeats.register(bench.bus, bench.queue, new, **first)  # type: ignore[arg-type]


async def fire(bench: Bench) -> dict[str, list[str]]:
    fired = await repeats.fire_due(bench.bus, bench.queue)
    return {name: list(jobs) for name, jobs in fired.jobs.items()}


async def slot(bench: Bench, name: str = "tick") -> int:
    found = [await bench.raw("ZSCORE", key, name) for key in ("repeat", "repeat_ours")]
    (at,) = [int(score) for score in found if score is not None]
    return at


async def put_slot(bench: Bench, at_ms: int, name: str = "tick") -> None:
    assert sum([await bench.raw("ZADD", key, "XX", "CH", at_ms, name) for key in ("repeat", "repeat_ours")]) == 1


async def now_ms(bench: Bench) -> int:
    seconds, micros = await bench.bus.execute("TIME")
    return int(seconds) * 1000 + int(micros) // 1000


async def test_the_record_is_what_a_peer_reads(bench: Bench) -> None:
    before = await now_ms(bench)
    assert await register(bench, first_in_ms=5_000)
    row = await bench.raw("HGETALL", "repeat:tick")
    assert (row[b"every_ms"], row[b"template"]) == (b"3600000", b"t")
    assert before + 5_000 <= await slot(bench) <= await now_ms(bench) + 5_000
    assert await bench.keys() == {"repeat": "zset", "repeat:tick": "hash", "meta": "hash"}


async def test_a_second_registration_changes_nothing(bench: Bench) -> None:
    assert await register(bench)
    before = await bench.raw("HGETALL", "repeat:tick"), await slot(bench)
    assert not await register(bench, every_ms=1)
    assert (await bench.raw("HGETALL", "repeat:tick"), await slot(bench)) == before


async def test_two_occurrences_are_two_jobs_in_the_order_of_their_slots(bench: Bench) -> None:
    await register(bench, every_ms=30)
    (first,) = (await fire(bench))["tick"]
    at = await slot(bench)
    assert ids.parse(first).unix_ms == at - 30
    await asyncio.sleep(0.04)
    (second,) = (await fire(bench))["tick"]
    assert ids.parse(second).unix_ms >= at
    assert first < second
    job = await claims.claim(bench.bus, bench.queue, 60_000)
    assert job
    assert (job.id, job.payload) == (first, b"t")
    await bench.sound()


async def test_a_repeat_that_is_not_due_does_not_fire(bench: Bench) -> None:
    await register(bench, first_in_ms=50_000)
    fired = await repeats.fire_due(bench.bus, bench.queue)
    assert not fired.jobs
    assert await repeats.due(bench.bus, bench.queue) == []
    assert fired.next_due_ms is not None
    assert 0 < fired.next_due_ms <= 50_000


async def test_a_slot_fires_once_among_many_processes(bench: Bench, valkey_url: str) -> None:
    others = [await Connector.connect(valkey_url) for _ in range(4)]
    for n in range(20):
        await register(bench, f"r{n}", catch_up=All(3))
        await put_slot(bench, await now_ms(bench) - 2 * HOUR - 5, f"r{n}")
    results = await asyncio.gather(*(repeats.fire_due(bus, bench.queue) for bus in others for _ in range(5)))
    jobs = [job for fired in results for found in fired.jobs.values() for job in found]
    assert len(jobs) == len(set(jobs)) == 60
    assert await bench.raw("ZCARD", "pending") == 60
    for bus in others:
        await bus.close()


async def test_a_caller_that_saw_an_older_slot_fires_nothing(bench: Bench) -> None:
    await register(bench)
    seen = await slot(bench)
    await fire(bench)
    keys = (bench.space.prefix,)
    assert await bench.bus.run(ENGINE.script("repeat_fire"), keys, ("tick", seen, seen + 7, seen)) is None
    assert await bench.raw("ZCARD", "pending") == 1
    assert await slot(bench) == seen + HOUR


async def test_lateness_moves_no_later_slot(bench: Bench) -> None:
    await register(bench)
    start = await now_ms(bench) - 5 * HOUR - 1_234
    await put_slot(bench, start)
    (job,) = (await fire(bench))["tick"]
    assert ids.parse(job).unix_ms == start + 5 * HOUR
    assert await slot(bench) == start + 6 * HOUR


@pytest.mark.parametrize(
    ("policy", "count"), [(One(), 1), (All(2), 2), (All(50), 4), (Skip(1_000), 0), (Skip(HOUR), 1)]
)
async def test_missed_slots_are_caught_up_as_the_policy_says(
    bench: Bench, policy: One | All | Skip, count: int
) -> None:
    await register(bench, catch_up=policy)
    start = await now_ms(bench) - 3 * HOUR - 60_000
    await put_slot(bench, start)
    assert len((await fire(bench)).get("tick", [])) == count
    assert await slot(bench) == start + 4 * HOUR


async def test_a_repeat_ends_behind_its_last_slot(bench: Bench) -> None:
    await register(bench, first_at_ms=await now_ms(bench) - 10, until_ms=await now_ms(bench) + HOUR // 2)
    assert (await fire(bench))["tick"]
    assert await repeats.get(bench.bus, bench.queue, "tick") is None
    assert not {"repeat", "repeat:tick"} & set(await bench.keys())
    assert not await fire(bench)


async def test_occurrences_go_to_their_lane_with_their_own_bounds(bench: Bench) -> None:
    await register(bench, lane=lane(1), max_attempts=7, timeout_ms=123)
    (job_id,) = (await fire(bench))["tick"]
    assert await bench.row(job_id) == {
        "state": "pending",
        "attempts": "0",
        "payload": "t",
        "group": lane(1),
        "max_attempts": "7",
        "timeout_ms": "123",
    }
    (job,) = await bench.take()
    assert job.lane == lane(1)
    await bench.sound()


async def test_a_flat_occurrence_has_exactly_the_fields_of_a_plain_job_and_wakes_a_worker(bench: Bench) -> None:
    await register(bench)
    (job_id,) = (await fire(bench))["tick"]
    assert await bench.row(job_id) == {"state": "pending", "attempts": "0", "payload": "t"}
    assert await bench.wakes() == 1


async def test_cancel_forgets_the_repeat_and_keeps_its_jobs(bench: Bench) -> None:
    await register(bench)
    await fire(bench)
    assert await repeats.cancel(bench.bus, bench.queue, "tick")
    assert not await repeats.cancel(bench.bus, bench.queue, "tick")
    assert await bench.raw("ZCARD", "pending") == 1
    assert await repeats.names(bench.bus, bench.queue) == []


async def test_registering_again_never_reuses_an_id_of_the_first_registration(bench: Bench) -> None:
    at = await now_ms(bench) - 10
    await register(bench, first_at_ms=at)
    (first,) = (await fire(bench))["tick"]
    await repeats.cancel(bench.bus, bench.queue, "tick")
    await register(bench, first_at_ms=at)
    (second,) = (await fire(bench))["tick"]
    assert first != second


async def test_an_update_keeps_the_coming_slot_unless_the_schedule_is_another(bench: Bench) -> None:
    await register(bench, first_in_ms=50_000)
    before = await slot(bench)
    change = Repeat("tick", Every(HOUR), b"new", lane=lane(2), catch_up=All(3))
    assert await repeats.update(bench.bus, bench.queue, change)
    assert await slot(bench) == before
    found = await repeats.get(bench.bus, bench.queue, "tick")
    assert found
    assert (found.template, found.lane, found.catch_up) == (b"new", lane(2), All(3))
    assert await repeats.update(bench.bus, bench.queue, Repeat("tick", Every(2 * HOUR), b"new"))
    assert await slot(bench) > before + HOUR
    found = await repeats.get(bench.bus, bench.queue, "tick")
    assert found
    assert (found.schedule, found.lane, found.catch_up) == (Every(2 * HOUR), None, One())
    assert not await repeats.update(bench.bus, bench.queue, Repeat("other", Every(1), b""))
    assert await repeats.names(bench.bus, bench.queue) == ["tick"]


async def test_a_cron_repeat_stands_at_its_next_slot_and_reads_back(bench: Bench) -> None:
    new = Repeat("noon", Cron("0 12 * * *", "Asia/Tokyo"), b"", until_ms=4_000_000_000_000)
    assert await repeats.register(bench.bus, bench.queue, new)
    at = await slot(bench, "noon")
    assert at % 86_400_000 == 3 * HOUR
    assert 0 < at - await now_ms(bench) <= 24 * HOUR
    found = await repeats.get(bench.bus, bench.queue, "noon")
    assert found
    assert (found.schedule, found.until_ms, found.next_ms) == (new.schedule, new.until_ms, at)
    await put_slot(bench, at - 48 * HOUR, "noon")
    (job,) = (await fire(bench))["noon"]
    assert ids.parse(job).unix_ms == at - 24 * HOUR
    assert await slot(bench, "noon") == at


async def test_advance_lets_the_coming_slot_pass(bench: Bench) -> None:
    await register(bench, first_in_ms=50_000)
    before = await slot(bench)
    assert await repeats.advance(bench.bus, bench.queue, "tick")
    assert await slot(bench) == before + HOUR
    assert not await repeats.advance(bench.bus, bench.queue, "absent")
    assert await bench.raw("ZCARD", "pending") == 0


async def test_a_record_of_a_peer_fires(bench: Bench) -> None:
    await bench.raw("HSET", "repeat:peer", "every_ms", "60000", "template", "p")
    await bench.raw("ZADD", "repeat", await now_ms(bench) - 500, "peer")
    (job_id,) = (await fire(bench))["peer"]
    assert (await bench.row(job_id))["payload"] == "p"
    await put_slot(bench, await now_ms(bench) - 5, "peer")
    (again,) = (await fire(bench))["peer"]
    assert ids.parse(again).tail == ids.parse(job_id).tail, "its number is given once"


@pytest.mark.parametrize("every", ["", "0", "-5", "x", "9" * 40])
async def test_a_record_that_nobody_can_read_waits_and_stops_no_other(bench: Bench, every: str) -> None:
    await bench.raw("HSET", "repeat:bad", "every_ms", every, "template", "p")
    await bench.raw("ZADD", "repeat", 5, "bad")
    await register(bench)
    fired = await repeats.fire_due(bench.bus, bench.queue)
    assert list(fired.jobs) == ["tick"]
    assert fired.unreadable == ["bad"]
    assert await slot(bench, "bad") > await now_ms(bench) + 50_000


async def test_a_name_without_a_record_leaves_the_list(bench: Bench) -> None:
    await register(bench)
    await bench.raw("DEL", "repeat:tick")
    await put_slot(bench, 5)
    await fire(bench)
    assert await bench.raw("ZSCORE", "repeat", "tick") is None


async def test_a_paused_queue_keeps_what_fires_and_obliterate_forgets_the_repeats(bench: Bench) -> None:
    await register(bench)
    await admin.pause(bench.bus, bench.queue)
    assert await fire(bench)
    assert not (await bench.claim()).jobs
    while not await admin.obliterate(bench.bus, bench.queue):
        pass
    assert await bench.keys() == {}


async def test_a_queue_has_a_most_of_repeats(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repeats, "MAX_REPEATS", 2)
    await register(bench, "a")
    await register(bench, "b")
    with pytest.raises(WrongState, match=r"too many .* limit of a queue is 2"):
        await register(bench, "c")
    assert sorted(await repeats.names(bench.bus, bench.queue)) == ["a", "b"]


async def test_bad_input_is_refused_before_anything_is_sent(bench: Bench) -> None:
    for name in ("", "a b", "x" * 129, "ä", "a\n"):
        with pytest.raises(InvalidName):
            Repeat(name, Every(1), b"")
    for bad in ({"until_ms": 0}, {"max_attempts": 0}, {"timeout_ms": -1}, {"lane": "x"}):
        with pytest.raises(InvalidInput):
            Repeat("a", Every(1), b"", **bad)  # type: ignore[arg-type]
    with pytest.raises(InvalidValue):
        Repeat("a", Every(1), b"x" * (64 * 1024 + 1))
    for first in ({"first_in_ms": -1}, {"first_at_ms": 10**15}):
        with pytest.raises(InvalidValue):
            await repeats.register(bench.bus, bench.queue, Repeat("a", Every(1), b""), **first)  # type: ignore[arg-type]
    assert await bench.keys() == {}


@pytest.fixture
async def pump(bench: Bench) -> AsyncIterator[list[dict[str, object]]]:
    seen: list[dict[str, object]] = []
    pump = Pump(
        bench.bus, bench.queue, beat_ms=60_000, observe=lambda n, d: seen.append(d) if n == "pump.fired" else None
    )
    async with asyncio.TaskGroup() as tasks:
        await register(bench, every_ms=50)
        tasks.create_task(pump.run())
        yield seen
        pump.stop()


async def test_a_pump_fires_at_the_slot_and_not_at_its_beat(bench: Bench, pump: list[dict[str, object]]) -> None:
    deadline = time.monotonic() + 5
    while len(pump) < 4:
        assert time.monotonic() < deadline
        await asyncio.sleep(0.01)
    assert await bench.raw("ZCARD", "pending") >= 4
