"""The driver trims what its policies say, never what somebody still needs, and no stream stops another."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import datetime
from typing import Any

import pytest

from codemojex.engine import ids, keyspace
from codemojex.engine.clock import ManualClock
from codemojex.engine.errors import InvalidInput, InvalidValue
from codemojex.engine.ids import Minter
from codemojex.engine.inspection import admin
from codemojex.engine.jobs.jobs import NewJob
from codemojex.engine.jobs.outcome import Discard
from codemojex.engine.maintenance.retention_loop import DeadLetters, MaxAge, RetentionLoop, RetentionPolicy
from codemojex.engine.streams import retention, streams
from codemojex.engine.streams.retention import MaxLen, MinId, Trimmed
from tests.engine.bench import Bench
from tests.support.waiting import until

DEADLINE_S = 15.0


async def grow(bench: Bench, stream: str, count: int, clock: ManualClock | None = None) -> list[str]:
    """`count` records, a second apart."""
    clock = clock or ManualClock()
    mint = Minter(1, clock)
    grown: list[str] = []
    for i in range(count):
        record = mint.mint("EVT")
        await streams.append_id(bench.bus, bench.queue, stream, record, {"n": str(i)})
        grown.append(record)
        clock.advance(1_000)
    return grown


async def left(bench: Bench, stream: str) -> list[str]:
    return [record.id for record in await streams.read(bench.bus, bench.queue, stream, count=100)]


def driver(
    bench: Bench, *policies: RetentionPolicy | DeadLetters, **more: Any
) -> tuple[RetentionLoop, list[tuple[str, Any]]]:
    seen: list[tuple[str, Any]] = []
    return RetentionLoop(bench.bus, policies, observe=lambda n, d: seen.append((n, d)), **more), seen


async def test_every_kind_of_window_keeps_what_it_says_to_the_millisecond(bench: Bench) -> None:
    q, clock = bench.queue, ManualClock()
    by_length, by_id, by_age = await grow(bench, "a", 5), await grow(bench, "b", 5), await grow(bench, "c", 5, clock)
    clock.advance(-1_000)  # now is the last record's millisecond
    one, _ = driver(
        bench,
        RetentionPolicy(q, "a", MaxLen(2)),
        RetentionPolicy(q, "b", MinId(ids.require(by_id[1]))),
        RetentionPolicy(q, "c", MaxAge(2_000)),
        clock=clock,
    )
    assert await one.sweep() == [Trimmed(3), Trimmed(1), Trimmed(2)]
    assert [await left(bench, name) for name in "abc"] == [by_length[3:], by_id[1:], by_age[2:]]
    clock.advance(1)
    assert (await one.sweep())[2] == Trimmed(1)


async def test_a_trim_stops_at_the_watermark_and_at_the_slowest_group(bench: Bench) -> None:
    q = bench.queue
    a, b = await grow(bench, "a", 5), await grow(bench, "b", 5)
    c = await grow(bench, "c", 3)
    await retention.set_archived(bench.bus, q, "a", a[1])
    await bench.bus.execute("XGROUP", "CREATE", bench.space.stream("b"), "slow", "0")
    await bench.bus.execute("XREADGROUP", "GROUP", "slow", "me", "COUNT", 1, "STREAMS", bench.space.stream("b"), ">")
    policies = [RetentionPolicy(q, name, MaxLen(0)) for name in "ab"]
    one, seen = driver(bench, *policies, RetentionPolicy(q, "c", MaxLen(0), require_archived=True))
    await one.sweep()
    assert [await left(bench, name) for name in "abc"] == [a[2:], b, c]
    assert [(n, d["stream"], d["removed"], d["held_by"]) for n, d in seen] == [
        ("retention.trimmed", "a", 2, "archive"),
        ("retention.trimmed", "b", 0, "group:slow"),
        ("retention.trimmed", "c", 0, "archive"),
    ]


async def test_a_trim_that_fails_is_reported_and_the_others_have_their_turn(bench: Bench) -> None:
    await bench.raw("SET", "stream:bad", "no stream")
    await grow(bench, "good", 3)
    one, seen = driver(bench, *(RetentionPolicy(bench.queue, name, MaxLen(1)) for name in ("bad", "good")))
    assert await one.sweep() == [None, Trimmed(2)]
    assert [name for name, _ in seen] == ["retention.fault", "retention.trimmed"]
    assert "WRONGTYPE" in seen[0][1]["error"]


async def test_it_trims_on_its_beat_until_it_is_stopped(bench: Bench) -> None:
    told: list[tuple[str, dict[str, object]]] = []
    policy = RetentionPolicy(bench.queue, "s", MaxLen(1))
    one = RetentionLoop(bench.bus, [policy], tick_ms=10, observe=lambda name, data: told.append((name, data)))
    clock = ManualClock()
    async with asyncio.timeout(DEADLINE_S), asyncio.TaskGroup() as tasks:
        tasks.create_task(one.run())
        for turn in (1, 2):
            made = await grow(bench, "s", 2, clock)
            await until(lambda: _only(bench, made[-1]))  # noqa: B023
            await until(lambda: len(told) >= turn)  # noqa: B023
        one.stop()
    assert {name for name, _ in told} == {"retention.trimmed"}
    assert sum(int(str(data["removed"])) for _, data in told) == 3


async def _only(bench: Bench, record_id: str) -> bool:
    return await left(bench, "s") == [record_id]


async def test_without_policies_nothing_is_sent(bench: Bench) -> None:
    await bench.bus.close()
    one, seen = driver(bench)
    assert await one.sweep() == []
    assert not seen


@pytest.mark.parametrize(
    "window",
    [
        lambda: MaxLen(-1),
        lambda: MaxAge(-1),
        lambda: MaxAge(10**18),
        lambda: MinId(-5),
        lambda: MinId(ids.BrandedId("EVTnope")),
        lambda: MinId(ids.derive("JOB", "x")),
        lambda: MinId(datetime(2026, 1, 1)),
        lambda: None,
        lambda: "maxlen",
    ],
)
def test_a_malformed_window_is_refused_when_it_is_given(window: Callable[[], Any]) -> None:
    with pytest.raises(InvalidInput):
        RetentionPolicy("q", "s", window())


def test_a_bad_name_or_beat_is_refused() -> None:
    with pytest.raises(InvalidInput):
        RetentionPolicy("q", "no stream", MaxLen(1))
    with pytest.raises(InvalidInput):
        RetentionPolicy("q q", "s", MaxLen(1))
    with pytest.raises(InvalidValue):
        RetentionLoop(None, [], tick_ms=0)  # type: ignore[arg-type]


async def test_dead_letters_go_by_age_and_by_number_and_a_failure_stops_nobody(bench: Bench) -> None:
    clock = ManualClock()
    mint = Minter(3, clock)
    made: list[str] = []
    for _ in range(6):
        made.append(mint.mint("JOB"))
        await bench.put(NewJob(made[-1], b"x"))
        clock.advance(1_000)
    for job in await bench.take(6):
        await bench.settle(job, Discard("no"))
    q = bench.queue
    one, seen = driver(
        bench, DeadLetters(f"{q}.broken"), DeadLetters(q, max_age_ms=5_000), DeadLetters(q, keep=2), clock=clock
    )
    await bench.bus.execute("SET", keyspace.of(f"{q}.broken").key("dead"), "no set")
    assert await one.sweep() == [None, Trimmed(1), Trimmed(3)]
    assert await admin.browse(bench.bus, q, dead=True) == made[:3:-1]
    assert [name for name, _ in seen] == ["retention.fault", "retention.dead_trimmed", "retention.dead_trimmed"]


@pytest.mark.parametrize("options", [{"keep": -1}, {"max_age_ms": -1}, {"max_age_ms": 10**16}, {"queue": "no queue"}])
def test_a_policy_for_dead_letters_that_means_nothing_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        DeadLetters(**{"queue": "q", **options})
