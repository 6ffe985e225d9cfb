"""Admission: what a job writes, and what a second one with the same name does not."""

from __future__ import annotations

import asyncio
import gc
import weakref
from typing import Any

import pytest

from codemojex.engine.backoff import Exponential, Fixed
from codemojex.engine.errors import InvalidId, InvalidName, InvalidValue, Unavailable, WrongKind
from codemojex.engine.inspection import admin
from codemojex.engine.jobs import claims, jobs, settlement, tick_batcher
from codemojex.engine.jobs.jobs import AdmissionRefused, Dedup, Duplicate, Enqueued, NewJob, Scheduled
from codemojex.engine.jobs.outcome import Discard
from codemojex.engine.lanes import lanes
from codemojex.engine.transport.connector import Connector
from tests.engine.bench import Bench, lane


async def test_a_flat_job_has_exactly_the_contract_s_fields_and_keys(bench: Bench) -> None:
    job = bench.job(b"pay \xff")
    assert await jobs.enqueue(bench.bus, bench.queue, job.id, job.payload) == Enqueued()
    assert await bench.raw("HGETALL", f"job:{job.id}") == {
        b"state": b"pending",
        b"attempts": b"0",
        b"payload": b"pay \xff",
    }
    assert await bench.keys() == {f"job:{job.id}": "hash", "pending": "zset", "wake": "list"}
    assert await bench.raw("ZSCORE", "pending", job.id) == 0
    assert await bench.raw("LRANGE", "wake", 0, -1) == [b"1"]


async def test_a_lane_job_has_its_lane_in_the_row_and_its_lane_in_the_ring(bench: Bench) -> None:
    job = bench.job(lane=lane(1))
    assert await lanes.enqueue(bench.bus, bench.queue, lane(1), job.id, b"x") == Enqueued()
    assert await bench.row(job.id) == {"state": "pending", "attempts": "0", "payload": "x", "group": lane(1)}
    expected = {f"job:{job.id}": "hash", f"g:{lane(1)}:pending": "zset", "ring": "list", "wake": "list"}
    assert await bench.keys() == expected
    assert await bench.ring() == [lane(1)]


async def test_a_delayed_job_waits_in_the_schedule(bench: Bench) -> None:
    soon, late = bench.id(), bench.id()
    assert await jobs.enqueue_at(bench.bus, bench.queue, late, b"x", 4_000_000_000_000) == Scheduled()
    assert await jobs.enqueue_in(bench.bus, bench.queue, soon, b"x", 60_000) == Scheduled()
    assert await bench.row(late) == {"state": "scheduled", "attempts": "0", "payload": "x"}
    seconds, micros = await bench.bus.execute("TIME")
    now = int(seconds) * 1000 + int(micros) // 1000
    assert 55_000 < await bench.raw("ZSCORE", "schedule", soon) - now <= 60_000
    assert await bench.raw("ZSCORE", "schedule", late) == 4_000_000_000_000
    assert not (await bench.claim()).jobs
    await bench.sound()


async def test_the_first_due_job_wakes_a_worker_and_a_later_one_does_not(bench: Bench) -> None:
    await bench.put(bench.job(delay_ms=5000))
    assert await bench.wakes() == 1
    await bench.put(bench.job(delay_ms=9000))
    assert await bench.wakes() == 1
    await bench.put(bench.job(delay_ms=1000))
    assert await bench.wakes() == 2


async def test_extra_fields_appear_only_when_used(bench: Bench) -> None:
    job = bench.job(
        max_attempts=5,
        backoff=Exponential(100, 5000, jitter=False),
        timeout_ms=9000,
        expires_at_ms=4_000_000_000_000,
        dedup=Dedup("k", 1000),
    )
    await bench.put(job)
    row = await bench.row(job.id)
    assert row == {
        "state": "pending",
        "attempts": "0",
        "payload": "x",
        "max_attempts": "5",
        "backoff": "exp:100:5000:0",
        "timeout_ms": "9000",
        "expires_at": "4000000000000",
        "dedup": "k",
        "dedup_ms": "1000",
    }


@pytest.mark.parametrize("where", ["pending", "lane", "scheduled", "active", "dead"])
async def test_second_enqueue_of_the_same_id_changes_nothing(bench: Bench, where: str) -> None:
    job = bench.job(b"first", lane=lane(1) if where == "lane" else None, delay_ms=5000 if where == "scheduled" else 0)
    await bench.put(job)
    if where in ("active", "dead"):
        (held,) = await bench.take()
        if where == "dead":
            await bench.settle(held, Discard("no"))
    before = await bench.row(job.id), await bench.keys()
    assert await bench.put(NewJob(job.id, b"first", lane=lane(2))) == [Duplicate(job.id)]
    assert await bench.put(NewJob(job.id, b"second")) == [Duplicate(job.id, conflict=True)]
    assert (await bench.row(job.id), await bench.keys()) == before
    await bench.sound()


async def test_an_id_of_another_kind_is_refused_and_leaves_no_key(bench: Bench) -> None:
    order = "ORD" + bench.id()[3:]
    with pytest.raises(WrongKind, match="EMQKIND"):
        await jobs.enqueue(bench.bus, bench.queue, order, b"x")
    with pytest.raises(WrongKind):
        await jobs.enqueue_in(bench.bus, bench.queue, order, b"x", 5)
    assert await bench.keys() == {}


@pytest.mark.parametrize(
    ("kwargs", "fault"),
    [
        ({"id": "job"}, InvalidId),
        ({"lane": "room"}, InvalidId),
        ({"payload": b"x" * (64 * 1024 + 1)}, InvalidValue),
        ({"delay_ms": -1}, InvalidValue),
        ({"max_attempts": 0}, InvalidValue),
        ({"timeout_ms": 0}, InvalidValue),
        ({"run_at_ms": 10**15}, InvalidValue),
    ],
)
def test_bad_input_is_refused_before_any_command(kwargs: dict[str, Any], fault: type[Exception]) -> None:
    good: dict[str, Any] = {"id": "JOB00000000001", "payload": b""}
    with pytest.raises(fault):
        NewJob(**good | kwargs)
    with pytest.raises(InvalidName):
        Dedup("no spaces", 1)


async def test_a_queue_name_outside_the_alphabet_is_refused(bench: Bench) -> None:
    with pytest.raises(InvalidName):
        await jobs.admit_many(bench.bus, "a{b", [bench.job()])


async def test_a_bad_job_never_spoils_the_others_of_its_batch(bench: Bench) -> None:
    one, two = bench.job(lane=lane(1)), bench.job()
    order = NewJob("ORD" + bench.id()[3:], b"x")
    verdicts = await bench.put(one, order, NewJob(one.id, b"other"), bench.job(delay_ms=500), two)
    assert verdicts == [
        Enqueued(),
        AdmissionRefused("EMQKIND job id must be JOB-namespaced"),
        Duplicate(one.id, conflict=True),
        Scheduled(),
        Enqueued(),
    ]
    await bench.sound()


async def test_a_long_batch_travels_in_chunks_and_keeps_its_order(bench: Bench) -> None:
    new = [bench.job(b"%d" % i) for i in range(1201)]
    verdicts = await bench.put(*new, *new[:3])
    assert verdicts == [Enqueued()] * 1201 + [Duplicate(job.id) for job in new[:3]]
    assert [len(chunk) for chunk in jobs._chunks(new)] == [500, 500, 201]
    big = [bench.job(b"x" * 60_000) for _ in range(20)]
    assert all(sum(len(job.payload) for job in chunk) <= jobs.CHUNK_BYTES for chunk in jobs._chunks(big))
    assert sum(map(len, jobs._chunks(big))) == 20


async def test_pending_walked_backwards_gives_the_newest_first(bench: Bench) -> None:
    made = await bench.fill([None] * 5)
    assert await admin.browse(bench.bus, bench.queue, 3) == made[:1:-1]


# idempotency keys


async def test_a_second_job_under_the_same_key_is_a_duplicate_of_the_first(bench: Bench) -> None:
    first, second = bench.job(dedup=Dedup("k", 60_000)), bench.job(dedup=Dedup("k", 60_000))
    assert await bench.put(first, second) == [Enqueued(), Duplicate(first.id)]
    assert await admin.get_dedup(bench.bus, bench.queue, "k") == first.id
    assert await admin.get_dedup(bench.bus, bench.queue, "other") is None
    assert await admin.get_job(bench.bus, bench.queue, second.id) is None


async def test_a_key_outlives_completion_for_its_window(bench: Bench) -> None:
    job = bench.job(dedup=Dedup("k", 60_000))
    await bench.put(job)
    await bench.raw("PEXPIRE", "de:k", 30_000)
    (held,) = await bench.take()
    assert await bench.raw("PTTL", "de:k") > 60_000
    await bench.settle(held)
    assert 50_000 < await bench.raw("PTTL", "de:k") <= 60_000
    assert await bench.put(bench.job(dedup=Dedup("k", 60_000))) == [Duplicate(job.id)]


async def test_a_renewed_lease_renews_the_key_that_must_outlive_the_job(bench: Bench) -> None:
    await bench.put(bench.job(dedup=Dedup("k", 1000)))
    (job,) = await bench.take()
    await bench.raw("PEXPIRE", "de:k", 30_000)
    await settlement.extend(bench.bus, bench.queue, job.id, job.token, 60_000)
    assert 60_000 < await bench.raw("PTTL", "de:k") <= 61_000


async def test_a_delayed_job_s_key_lives_until_its_time_and_a_window_more(bench: Bench) -> None:
    await bench.put(bench.job(delay_ms=100_000, dedup=Dedup("k", 60_000)))
    assert 150_000 < await bench.raw("PTTL", "de:k") <= 160_000


async def test_a_coalescing_key_is_freed_by_the_claim(bench: Bench) -> None:
    key = Dedup("board", 60_000, release="claim")
    first, waiting = bench.job(dedup=key), bench.job(dedup=key)
    assert await bench.put(first, waiting) == [Enqueued(), Duplicate(first.id)]
    (held,) = await bench.take()
    assert await bench.put(waiting) == [Enqueued()]
    await bench.settle(held)
    assert await admin.get_dedup(bench.bus, bench.queue, "board") == waiting.id


async def test_a_coalescing_job_that_expires_unclaimed_frees_its_key(bench: Bench) -> None:
    key = Dedup("board", 60_000, release="claim")
    await bench.put(bench.job(dedup=key, expires_at_ms=1))
    assert not (await bench.claim()).jobs
    assert await bench.put(bench.job(dedup=key)) == [Enqueued()]


async def test_a_claim_leaves_a_key_alone_that_points_at_another_job(bench: Bench) -> None:
    await bench.put(bench.job(dedup=Dedup("k", 60_000, release="claim")))
    await bench.raw("SET", "de:k", "somebody")
    await bench.take()
    assert await bench.raw("GET", "de:k") == b"somebody"


# one tick, one batch


async def test_admissions_of_one_tick_share_one_batch_and_get_their_own_verdicts(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    batches: list[int] = []
    run_many = bench.bus.run_many

    async def counting(script: Any, calls: Any) -> Any:
        batches.append(len(calls))
        return await run_many(script, calls)

    monkeypatch.setattr(bench.bus, "run_many", counting)
    one, order = bench.job(), NewJob("ORD" + bench.id()[3:], b"x")
    verdicts = await asyncio.gather(
        *(jobs.admit(bench.bus, bench.queue, job) for job in (one, NewJob(one.id, b"other"), order)),
        return_exceptions=True,
    )
    assert verdicts[:2] == [Enqueued(), Duplicate(one.id, conflict=True)]
    assert isinstance(verdicts[2], WrongKind)
    assert batches == [1]


async def test_a_cancelled_admission_takes_nobody_with_it(bench: Bench) -> None:
    first = asyncio.create_task(jobs.admit(bench.bus, bench.queue, bench.job()))
    second = asyncio.create_task(jobs.admit(bench.bus, bench.queue, bench.job()))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    first.cancel()
    assert await second == Enqueued()
    with pytest.raises(asyncio.CancelledError):
        await first
    assert tick_batcher.batcher_of(bench.bus, bench.queue, jobs.attempt_many).unanswered == 0


async def test_a_batch_that_is_cancelled_before_it_leaves_holds_nobody_up(bench: Bench) -> None:
    before = asyncio.all_tasks()
    caller = asyncio.create_task(jobs.admit(bench.bus, bench.queue, bench.job()))
    await asyncio.sleep(0)
    (ride,) = asyncio.all_tasks() - before - {caller}
    ride.cancel()
    async with asyncio.timeout(15):
        assert isinstance((await asyncio.gather(caller, return_exceptions=True))[0], asyncio.CancelledError)
        assert tick_batcher.batcher_of(bench.bus, bench.queue, jobs.attempt_many).unanswered == 0
        assert await jobs.admit(bench.bus, bench.queue, bench.job()) == Enqueued()


async def test_too_many_unanswered_admissions_are_refused(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tick_batcher, "LIMIT", 2)
    answers = await asyncio.gather(
        *(jobs.admit(bench.bus, bench.queue, bench.job()) for _ in range(3)), return_exceptions=True
    )
    assert answers[:2] == [Enqueued(), Enqueued()]
    assert isinstance(answers[2], Unavailable)


async def test_a_closed_connector_is_not_kept_alive_by_its_admissions(valkey_url: str, queue: str) -> None:
    bus = await Connector.connect(valkey_url)
    await jobs.admit(bus, queue, Bench(bus, queue).job())
    await bus.close()
    gone = weakref.ref(bus)
    del bus
    await asyncio.sleep(0)
    gc.collect()
    assert gone() is None


# wake tokens


async def test_admission_wakes_one_worker_per_flat_job_and_per_lane_made_serviceable(bench: Bench) -> None:
    await bench.fill([None, None, lane(1), lane(1), lane(2)])
    assert await bench.wakes() == 4


async def test_never_more_than_64_wake_tokens_wait(bench: Bench) -> None:
    await bench.fill([None] * 100)
    assert await bench.wakes() == 64


async def test_work_for_a_paused_or_full_lane_wakes_nobody(bench: Bench) -> None:
    await lanes.pause(bench.bus, bench.queue, lane(1))
    await bench.fill([lane(1)])
    assert await bench.wakes() == 0
    assert await bench.ring() == []


def test_the_backoff_in_a_row_is_short_text() -> None:
    assert (Fixed(5).wire, Exponential(1, 2, jitter=True).wire) == ("fixed:5", "exp:1:2:1")


async def test_claims_reach_what_admissions_wrote(bench: Bench) -> None:
    await bench.fill([None])
    job = await claims.claim(bench.bus, bench.queue, 1000)
    assert job is not None
    assert (job.payload, job.token, job.lane) == (b"x", "1", None)
