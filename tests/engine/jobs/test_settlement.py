"""Settlement: each attempt ends once, under its token, together with its effect."""

from __future__ import annotations

import asyncio

import pytest

from codemojex.engine.backoff import Exponential, Fixed
from codemojex.engine.errors import CrossSlot, EffectFailed, InvalidValue, StaleToken
from codemojex.engine.inspection import admin
from codemojex.engine.jobs import settlement
from codemojex.engine.jobs.effects import Effect, EffectBody
from codemojex.engine.jobs.outcome import Complete, Delay, Discard, GiveBack, Outcome, Park, Retry
from codemojex.engine.jobs.settlement import EffectFailure, Gone, Policy, Settled, Settlement, Stale
from codemojex.engine.lanes import lanes, limits
from codemojex.engine.maintenance import promotion, recovery
from tests.engine.bench import LEASE, Bench, lane

PUT = EffectBody("put", "redis.call('SET', KEYS[1], ARGV[1]) return {ARGV[1], 7}")
COUNT = EffectBody("count", "return redis.call('INCRBY', KEYS[1], ARGV[1])")
RAISE = EffectBody("raise", "redis.call('GET') return 1")
REFUSE = EffectBody("refuse", "return redis.error_reply('NOT now')")
BODIES = (PUT, COUNT, RAISE, REFUSE)
ANY: list[Outcome] = [Complete(), Retry("no"), Delay(5), Park(5), Discard("no"), GiveBack()]


async def test_completion_deletes_the_row_and_leaves_nothing_in_flight(bench: Bench) -> None:
    (job_id,) = await bench.fill([None])
    (job,) = await bench.take()
    assert await settlement.complete(bench.bus, bench.queue, job_id, job.token) == Settled("completed")
    assert await bench.keys() == {"metrics:completed": "hash"}
    assert await bench.raw("HGETALL", "metrics:completed") == {b"count": b"1"}
    assert await settlement.complete(bench.bus, bench.queue, job_id, job.token) == Gone()


async def test_a_wrong_token_is_refused_also_by_a_server_that_forgot_the_scripts(bench: Bench) -> None:
    await bench.fill([None])
    (job,) = await bench.take()
    await bench.bus.execute("SCRIPT", "FLUSH")
    with pytest.raises(StaleToken, match=job.id):
        await settlement.complete(bench.bus, bench.queue, job.id, "2")
    await settlement.complete(bench.bus, bench.queue, job.id, "1")


@pytest.mark.parametrize("outcome", ANY, ids=lambda o: type(o).__name__)
async def test_a_stale_token_changes_nothing_whatever_the_outcome(bench: Bench, outcome: Outcome) -> None:
    await bench.fill([lane(1), lane(1)])
    (job,) = await bench.take()
    await bench.settle(job, GiveBack())
    (again,) = await bench.take()
    before = await bench.row(job.id), await bench.keys(), await bench.raw("HGETALL", "gactive")
    assert await bench.settle(job, outcome) == Stale()
    assert (await bench.row(job.id), await bench.keys(), await bench.raw("HGETALL", "gactive")) == before
    assert again.token == "2"
    await bench.sound()


@pytest.mark.parametrize("first", [Retry("no"), Delay(5), Discard("no")], ids=lambda o: type(o).__name__)
async def test_an_attempt_is_settled_once(bench: Bench, first: Outcome) -> None:
    await bench.fill([lane(1)])
    (job,) = await bench.take()
    assert isinstance(await bench.settle(job, first), Settled)
    assert await bench.settle(job) == Stale()
    await bench.sound()


async def test_an_unknown_job_is_gone(bench: Bench) -> None:
    assert await settlement.retry(bench.bus, bench.queue, bench.id(), "1", "no") == Gone()
    assert await settlement.delay(bench.bus, bench.queue, bench.id(), "1", 5) == Gone()


# retry, delay, death


async def test_a_retry_keeps_the_error_and_comes_back_under_the_next_token(bench: Bench) -> None:
    await bench.fill([None])
    (job,) = await bench.take()
    assert await settlement.retry(bench.bus, bench.queue, job.id, "1", "boom", delay_ms=50_000) == Settled("scheduled")
    expected = {"state": "scheduled", "attempts": "1", "payload": "x", "failures": "1", "last_error": "boom"}
    assert await bench.row(job.id) == {**expected, "counted": "1"}
    assert await bench.raw("ZSCORE", "active", job.id) is None
    await bench.due(job.id)
    promoted = await promotion.promote(bench.bus, bench.queue)
    assert promoted.jobs == 1
    (again,) = await bench.take()
    assert (again.token, again.failures) == ("2", 1)


async def test_a_poison_job_dies_exactly_at_its_cap_with_the_last_error(bench: Bench) -> None:
    await bench.put(bench.job(lane=lane(1)))
    for attempt in range(1, 4):
        (job,) = await bench.take()
        verdict = await settlement.retry(bench.bus, bench.queue, job.id, job.token, f"boom {attempt}", delay_ms=0)
        assert verdict == Settled("dead" if attempt == 3 else "scheduled")
    row = await bench.row(job.id)
    assert (row["state"], row["last_error"], row["failures"]) == ("dead", "boom 3", "3")
    assert await bench.raw("ZRANGE", "dead", 0, -1, "WITHSCORES") == [[job.id.encode(), 0.0]]
    assert await bench.raw("HGETALL", "metrics:failed") == {b"count": b"1"}
    await bench.sound()


async def test_the_row_s_own_cap_counts_before_the_worker_s(bench: Bench) -> None:
    await bench.put(bench.job(max_attempts=1))
    (job,) = await bench.take()
    assert await bench.settle(job, Retry("no"), Policy(max_attempts=9)) == Settled("dead")


async def test_the_row_s_own_backoff_counts_before_the_worker_s(bench: Bench) -> None:
    await bench.put(bench.job(backoff=Fixed(90_000)), bench.job())
    first, second = await bench.take(2)
    for job in (first, second):
        await bench.settle(job, Retry("no"), Policy(backoff=Fixed(10_000)))
    dues = [await bench.raw("ZSCORE", "schedule", job.id) for job in (first, second)]
    assert abs(dues[0] - dues[1] - 80_000) < 1000


@pytest.mark.parametrize("backoff", [Exponential(1000, 7000, jitter=False), Exponential(1000, 7000), Fixed(300)])
async def test_the_script_waits_as_long_as_the_backoff_says(
    bench: Bench, backoff: Exponential | Fixed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(settlement.random, "random", lambda: 0.75)
    await bench.put(bench.job(backoff=backoff, max_attempts=9))
    for failures in range(1, 6):
        (job,) = await bench.take()
        await bench.settle(job, Retry("no"))
        seconds, micros = await bench.bus.execute("TIME")
        wait = await bench.raw("ZSCORE", "schedule", job.id) - (int(seconds) * 1000 + int(micros) // 1000)
        assert 0 <= backoff.delay_ms(failures, 0.75) - wait < 1000
        await bench.due(job.id)


async def test_an_error_text_of_any_length_and_any_characters_is_kept_bounded(bench: Bench) -> None:
    await bench.put(bench.job())
    (job,) = await bench.take()
    await bench.settle(job, Retry("\ud800" + "x" * 100_000))
    assert len((await bench.row(job.id))["last_error"]) == settlement.MAX_ERROR


async def test_a_delay_charges_no_failure_and_leaves_its_seat(bench: Bench) -> None:
    await lanes.limit(bench.bus, bench.queue, lane(1), 1)
    await bench.fill([lane(1), lane(1)])
    (job,) = await bench.take()
    assert await settlement.delay(bench.bus, bench.queue, job.id, "1", 60_000) == Settled("scheduled")
    row = await bench.row(job.id)
    assert (row["state"], row["attempts"], "failures" in row) == ("scheduled", "1", False)
    assert await bench.ring() == [lane(1)]
    await bench.sound()
    await bench.take()
    await bench.due(job.id)
    await promotion.promote(bench.bus, bench.queue)
    assert await bench.ring() == []
    await bench.sound()


async def test_a_discarded_job_is_dead_at_once(bench: Bench) -> None:
    await bench.fill([lane(1)])
    (job,) = await bench.take()
    assert await bench.settle(job, Discard("hopeless")) == Settled("dead")
    assert (await bench.row(job.id))["last_error"] == "hopeless"
    await bench.sound()


async def test_a_job_given_back_waits_at_its_old_place_and_nobody_is_charged(bench: Bench) -> None:
    made = await bench.fill([lane(1), lane(1), None])
    for job in await bench.take(3):
        assert await bench.settle(job, GiveBack()) == Settled("pending")
    await bench.sound()
    taken = await bench.take(3)
    assert {job.id for job in taken} == set(made)
    assert [job.id for job in taken if job.lane] == made[:2]
    assert {(job.token, job.failures, job.stalled) for job in taken} == {("2", 0, 0)}


async def test_parking_rests_the_whole_lane_and_no_other(bench: Bench) -> None:
    await bench.fill([lane(1), lane(1), lane(2)])
    (job,) = await bench.take()
    assert await bench.settle(job, Park(60_000)) == Settled("pending")
    await bench.sound()
    answer = await bench.claim(5)
    assert [taken.lane for taken in answer.jobs] == [lane(2)]
    assert answer.next_due_ms is not None
    assert 50_000 < answer.next_due_ms <= 60_000
    await bench.rested(lane(1))
    assert [taken.token for taken in await bench.take(2)] == ["2", "1"]
    await bench.sound()


async def test_parking_a_flat_job_delays_it(bench: Bench) -> None:
    await bench.fill([None])
    (job,) = await bench.take()
    assert await bench.settle(job, Park(60_000)) == Settled("scheduled")
    await bench.sound()


# late finishes


@pytest.mark.parametrize("name", [None, lane(1)], ids=["flat", "lane"])
@pytest.mark.parametrize("outcome", ANY, ids=lambda o: type(o).__name__)
async def test_a_late_holder_may_end_the_job_until_it_is_claimed_again(
    bench: Bench, outcome: Outcome, name: str | None
) -> None:
    await limits.set_default_lane_limit(bench.bus, bench.queue, 1)
    await bench.fill([name])
    (job,) = await bench.take()
    await bench.lapse(job)
    await recovery.recover(bench.bus, bench.queue)
    assert isinstance(await bench.settle(job, outcome), Settled)
    await bench.sound()
    if isinstance(outcome, Complete):
        assert await admin.get_job_state(bench.bus, bench.queue, job.id) == "absent"
        assert await bench.ring() == []


@pytest.mark.parametrize("name", [None, lane(1)], ids=["flat", "lane"])
@pytest.mark.parametrize("lapsed", [False, True], ids=["in time", "late"])
@pytest.mark.parametrize("outcome", ANY[1:], ids=lambda o: type(o).__name__)
async def test_a_repeated_settlement_finds_the_job_waiting_again_and_changes_nothing(
    bench: Bench, outcome: Outcome, name: str | None, lapsed: bool
) -> None:
    await bench.fill([name])
    (job,) = await bench.take()
    if lapsed:
        await bench.lapse(job)
        await recovery.recover(bench.bus, bench.queue)
    await bench.settle(job, outcome)
    state = (await bench.row(job.id))["state"]
    if state == "dead":
        await admin.reprocess(bench.bus, bench.queue, job.id)
    elif state == "scheduled":
        await bench.due(job.id)
        await promotion.promote(bench.bus, bench.queue)
    before = await bench.row(job.id)
    assert before["state"] == "pending"
    assert await bench.settle(job, outcome) == Stale()
    assert await bench.row(job.id) == before
    await bench.sound()


async def test_a_lapsed_lease_that_nobody_noticed_may_still_complete(bench: Bench) -> None:
    await bench.fill([lane(1)])
    (job,) = await bench.take()
    await bench.lapse(job)
    assert await bench.settle(job) == Settled("completed")
    await bench.sound()


# batches and effects


async def test_each_item_of_a_batch_is_fenced_by_itself(bench: Bench) -> None:
    await bench.fill([lane(1), lane(2), None])
    one, two, three = await bench.take(3)
    items = [
        Settlement(one.id, "7", Complete()),
        Settlement(bench.id(), "1", Complete()),
        Settlement(two.id, two.token, Retry("no", 60_000)),
        Settlement(three.id, three.token, Complete()),
        Settlement(three.id, three.token, Complete()),
    ]
    verdicts = await settlement.settle_many(bench.bus, bench.queue, items)
    assert verdicts == [Stale(), Gone(), Settled("scheduled"), Settled("completed"), Gone()]
    await bench.sound()


async def test_a_batch_longer_than_a_chunk_is_settled_whole(bench: Bench) -> None:
    await bench.fill([lane(i % 9) for i in range(450)])
    items = [Settlement(job.id, job.token, Complete()) for job in await bench.take(450)]
    await bench.fill([lane(1)])
    verdicts, claimed = await settlement.settle_and_claim(bench.bus, bench.queue, items, 5, LEASE)
    assert verdicts == [Settled("completed")] * 450
    assert len(claimed.jobs) == 1
    assert await bench.raw("HGET", "metrics:completed", "count") == b"450"
    await bench.sound()


async def test_two_seats_freed_at_once_bring_the_lane_back_once(bench: Bench) -> None:
    await lanes.limit(bench.bus, bench.queue, lane(1), 2)
    await bench.fill([lane(1)] * 4)
    items = [Settlement(job.id, job.token, Complete()) for job in await bench.take(2)]
    await settlement.settle_many(bench.bus, bench.queue, items)
    assert await bench.ring() == [lane(1)]
    assert await bench.raw("EXISTS", "gactive") == 0
    await bench.sound()


async def test_one_batch_may_free_and_refill_the_same_lanes(bench: Bench) -> None:
    await limits.set_default_lane_limit(bench.bus, bench.queue, 2)
    await bench.fill([lane(1)] * 5 + [lane(2)] * 5)
    jobs = await bench.take(4)
    mixed: list[Outcome] = [Complete(), GiveBack(), Park(60_000), Retry("no", 0)]
    items = [Settlement(job.id, job.token, outcome) for job, outcome in zip(jobs, mixed, strict=True)]
    await settlement.settle_many(bench.bus, bench.queue, items)
    await bench.sound()
    await bench.claim(9)
    await bench.sound()


async def test_a_row_that_cannot_be_read_spoils_no_other_settlement(bench: Bench) -> None:
    await bench.fill([lane(1), lane(2)])
    one, two = await bench.take(2)
    await bench.bus.execute("SET", bench.space.row(one.id), "not a hash")
    items = [Settlement(job.id, job.token, Complete()) for job in (one, two)]
    failed, fine = await settlement.settle_many(bench.bus, bench.queue, items)
    assert isinstance(failed, EffectFailure)
    assert "WRONGTYPE" in failed.reason
    assert fine == Settled("completed")
    await bench.bus.execute("DEL", bench.space.row(one.id))


async def test_settling_and_claiming_go_in_one_step(bench: Bench) -> None:
    await lanes.limit(bench.bus, bench.queue, lane(1), 1)
    await bench.fill([lane(1), lane(1)])
    (job,) = await bench.take()
    item = Settlement(job.id, job.token, Complete())
    verdicts, claimed = await settlement.settle_and_claim(bench.bus, bench.queue, [item], 4, LEASE)
    assert verdicts == [Settled("completed")]
    assert [taken.lane for taken in claimed.jobs] == [lane(1)]
    verdicts, claimed = await settlement.settle_and_claim(bench.bus, bench.queue, [], 0, LEASE)
    assert (verdicts, claimed.jobs, claimed.next_due_ms) == ([], [], None)
    await bench.sound()


async def test_an_effect_commits_with_the_acknowledgement_and_answers(bench: Bench) -> None:
    await bench.fill([None, None])
    key = f"{{{bench.queue}}}:board"
    one, two = await bench.take(2)
    items = [
        Settlement(one.id, one.token, Complete(effect=Effect("put", [key], [b"\xff\x00"]))),
        Settlement(two.id, two.token, Complete(effect=Effect("count", [key + "2"], [5]))),
    ]
    verdicts = await settlement.settle_many(bench.bus, bench.queue, items, effects=BODIES)
    assert verdicts == [Settled("completed", [b"\xff\x00", 7]), Settled("completed", 5)]
    assert await bench.bus.execute("GET", key) == b"\xff\x00"


async def test_each_effect_sees_its_own_keys_and_arguments_and_no_others(bench: Bench) -> None:
    echo = EffectBody("echo", "return {KEYS, ARGV}")
    jobs = await bench.take(len(await bench.fill([None] * 4)))
    key = f"{{{bench.queue}}}:k"
    given: list[tuple[list[str], list[str]]] = [
        ([key + "1", key + "2"], ["a"]), ([], []), ([key + "3"], ["b", "c", "d"]), ([], ["e"]),
    ]  # fmt: skip
    items = [
        Settlement(job.id, job.token, Complete(b"result", effect=Effect("echo", *keys_and_args)))
        for job, keys_and_args in zip(jobs, given, strict=True)
    ]
    for verdict, (keys, args) in zip(
        await settlement.settle_many(bench.bus, bench.queue, items, effects=(echo, *BODIES)), given, strict=True
    ):
        assert verdict == Settled("completed", [[k.encode() for k in keys], [a.encode() for a in args]])


async def test_a_stale_token_runs_no_effect(bench: Bench) -> None:
    await bench.fill([None])
    (job,) = await bench.take()
    key = f"{{{bench.queue}}}:board"
    with pytest.raises(StaleToken):
        effect = Effect("put", [key], ["v"])
        await settlement.complete(bench.bus, bench.queue, job.id, "2", effect, effects=BODIES)
    assert await bench.bus.execute("EXISTS", key) == 0


@pytest.mark.parametrize(("body", "text"), [("raise", "Wrong number of args"), ("refuse", "NOT now")])
async def test_a_failed_effect_leaves_its_job_in_flight_and_spoils_no_other(bench: Bench, body: str, text: str) -> None:
    await bench.fill([lane(1), lane(2)])
    one, two = await bench.take(2)
    items = [
        Settlement(one.id, one.token, Complete(effect=Effect(body))),
        Settlement(two.id, two.token, Complete()),
    ]
    failed, fine = await settlement.settle_many(bench.bus, bench.queue, items, effects=BODIES)
    assert isinstance(failed, EffectFailure)
    assert text in failed.reason
    assert fine == Settled("completed")
    assert await admin.get_job_state(bench.bus, bench.queue, one.id) == "active"
    with pytest.raises(EffectFailed, match=text):
        await settlement.complete(bench.bus, bench.queue, one.id, one.token, Effect(body), effects=BODIES)
    await bench.sound()


async def test_an_effect_s_key_outside_the_queue_s_slot_is_refused_before_any_write(bench: Bench) -> None:
    await bench.fill([None])
    (job,) = await bench.take()
    with pytest.raises(CrossSlot, match="elsewhere"):
        effect = Effect("put", ["elsewhere"], ["v"])
        await settlement.complete(bench.bus, bench.queue, job.id, job.token, effect, effects=BODIES)
    assert await admin.get_job_state(bench.bus, bench.queue, job.id) == "active"
    assert await bench.bus.execute("EXISTS", "elsewhere") == 0


@pytest.mark.parametrize("outcome", [Retry("no", -1), Delay(-1), Park(10**12)], ids=lambda o: type(o).__name__)
async def test_a_wait_out_of_range_is_refused_before_any_write(bench: Bench, outcome: Outcome) -> None:
    await bench.fill([None])
    (job,) = await bench.take()
    with pytest.raises(InvalidValue):
        await bench.settle(job, outcome)
    assert await admin.get_job_state(bench.bus, bench.queue, job.id) == "active"


async def test_what_is_no_outcome_is_refused_by_name(bench: Bench) -> None:
    with pytest.raises(InvalidValue, match="'done' is not an outcome"):
        settlement.check(bench.queue, "done", ())  # type: ignore[arg-type]
    with pytest.raises(InvalidValue, match="str, bytes, int and float"):
        settlement.check(bench.queue, Complete(effect=Effect("put", [], [None])), BODIES)  # type: ignore[list-item]


async def test_an_effect_without_a_body_is_refused_before_any_write(bench: Bench) -> None:
    with pytest.raises(InvalidValue, match="nothing"):
        await settlement.complete(bench.bus, bench.queue, bench.id(), "1", Effect("nothing"), effects=BODIES)


@pytest.mark.parametrize("ceiling", [None, 1, 2])
async def test_an_effect_may_admit_a_follow_up_job(bench: Bench, ceiling: int | None) -> None:
    await limits.set_default_lane_limit(bench.bus, bench.queue, ceiling)
    body = EffectBody(
        "follow", "return {admit_one(ARGV[1], now_ms(), {id = ARGV[2], payload = 'next', lane = ARGV[3]})}"
    )
    await bench.fill([lane(1)])
    (job,) = await bench.take()
    follow = bench.id()
    effect = Effect("follow", [], [bench.space.prefix, follow, lane(1)])
    verdict = await settlement.complete(bench.bus, bench.queue, job.id, job.token, effect, effects=[body])
    assert verdict == Settled("completed", [b"enqueued", follow.encode()])
    await bench.sound()
    assert [taken.id for taken in await bench.take()] == [follow]


async def test_two_holders_of_one_token_settle_once(bench: Bench) -> None:
    await bench.fill([lane(1)])
    (job,) = await bench.take()
    key = f"{{{bench.queue}}}:n"
    item = Settlement(job.id, job.token, Complete(effect=Effect("count", [key], [1])))
    calls = (settlement.settle_many(bench.bus, bench.queue, [item], effects=BODIES) for _ in range(5))
    verdicts = [v for answer in await asyncio.gather(*calls) for v in answer]
    assert sorted(type(v).__name__ for v in verdicts) == ["Gone"] * 4 + ["Settled"]
    assert await bench.bus.execute("GET", key) == b"1"


async def test_a_free_seat_of_a_full_queue_wakes_a_worker(bench: Bench) -> None:
    await limits.set_concurrency(bench.bus, bench.queue, 1)
    await bench.fill([None, None])
    (job,) = await bench.take()
    await bench.bus.execute("DEL", bench.space.key("wake"))
    await bench.settle(job)
    assert await bench.wakes() == 1


# leases


async def test_an_extended_lease_outlives_the_first_deadline(bench: Bench) -> None:
    await bench.fill([None])
    (job,) = await bench.take()
    assert await settlement.extend(bench.bus, bench.queue, job.id, job.token, LEASE * 2)
    assert await bench.raw("ZSCORE", "active", job.id) >= job.lease_until_ms + LEASE
    with pytest.raises(StaleToken):
        await settlement.extend(bench.bus, bench.queue, job.id, "2", LEASE)
    assert not await settlement.extend(bench.bus, bench.queue, bench.id(), "1", LEASE)
    with pytest.raises(InvalidValue):
        await settlement.extend(bench.bus, bench.queue, job.id, job.token, 0)


async def test_extending_many_names_exactly_the_lost_ones(bench: Bench) -> None:
    await bench.fill([None, None])
    live, stale = await bench.take(2)
    gone = bench.id()
    leases = [(live.id, live.token), (stale.id, "9"), (gone, "1")]
    assert await settlement.extend_many(bench.bus, bench.queue, leases, LEASE) == [stale.id, gone]


async def test_extending_never_resurrects_a_job_that_left(bench: Bench) -> None:
    await bench.fill([None] * 3)
    held = await bench.take(3)
    await bench.settle(held[0], GiveBack())
    await bench.settle(held[1], Delay(60_000))
    await bench.settle(held[2], Discard("no"))
    leases = [(job.id, job.token) for job in held]
    assert await settlement.extend_many(bench.bus, bench.queue, leases, LEASE) == [job.id for job in held]
    assert await bench.raw("ZCARD", "active") == 0
    await bench.sound()
