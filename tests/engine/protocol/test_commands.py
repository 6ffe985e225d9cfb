"""Commands called by themselves, as a peer calls them: what they answer and leave where no verb looks so closely."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from msgspec.msgpack import encode as msgpack

from codemojex.engine import ids
from codemojex.engine.backoff import Exponential, Fixed
from codemojex.engine.errors import WrongState
from codemojex.engine.flows import flows
from codemojex.engine.flows.flows import Flow
from codemojex.engine.jobs import cancel
from codemojex.engine.jobs.jobs import Dedup, Duplicate
from codemojex.engine.lanes import lanes, limits
from codemojex.engine.maintenance import recovery
from tests.engine.bench import Bench, lane

DEADLINE_S = 5.0


async def admit(bench: Bench, **spec: Any) -> tuple[bytes, dict[str, str]]:
    """What the command answers to a spec (see include/admit_one.lua), and the row that it wrote."""
    job_id = bench.id()
    code, holder = await bench.run("admit_many", msgpack([{"id": job_id, **spec}]), b"payload")
    assert holder.decode() == job_id
    return code, await bench.row(job_id)


# admission


async def test_a_row_holds_what_its_spec_says_and_nothing_else(bench: Bench) -> None:
    plain = {"state": "pending", "attempts": "0", "payload": "payload"}
    assert await admit(bench) == (b"enqueued", plain)
    code, row = await admit(
        bench, lane=lane(1), max_attempts=3, backoff="fixed:5", timeout=700, expires=4_000_000_000_000, dedup="k",
        window=90_000, release="window", trace="00-aa-bb-01",
    )  # fmt: skip
    assert code == b"enqueued"
    assert row == plain | {
        "group": lane(1), "max_attempts": "3", "backoff": "fixed:5", "timeout_ms": "700", "dedup": "k",
        "expires_at": "4000000000000", "dedup_ms": "90000", "trace": "00-aa-bb-01",
    }  # fmt: skip
    row = (await admit(bench, dedup="l", window=90_000, release="claim"))[1]
    assert row == plain | {"dedup": "l"}
    code, row = await admit(bench, children=2, parent=bench.id(), parent_queue="q", policy="id")
    assert (code, row["state"], row["children"]) == (b"held", "awaiting_children", "2")
    assert (row["parent_queue"], row["parent_policy"]) == ("q", "id")


# settings


async def test_settings_say_that_they_were_taken(bench: Bench) -> None:
    assert await bench.run("configure", "max", 5, "duration", 1000) == 1
    assert await bench.run("lane_set", lane(1), "weight", 2) == 1


async def test_a_ceiling_of_its_own_is_no_default_and_other_settings_leave_the_default(bench: Bench) -> None:
    await limits.set_default_lane_limit(bench.bus, bench.queue, 2)
    await bench.fill([lane(1)])
    await lanes.weight(bench.bus, bench.queue, lane(1), 3)
    assert await bench.raw("HGETALL", "gdefault") == {lane(1).encode(): b"2"}
    await lanes.limit(bench.bus, bench.queue, lane(1), 4)
    assert await bench.raw("EXISTS", "gdefault") == 0
    await bench.settle((await bench.take())[0])
    assert await bench.raw("HGET", "glimit", lane(1)) == b"4", "an idle lane keeps it"


# the rota


async def test_a_lane_whose_only_seat_dies_with_its_job_is_served_again(bench: Bench) -> None:
    await limits.set_default_lane_limit(bench.bus, bench.queue, 1)
    await bench.fill([lane(1)] * 2)
    for there in ([lane(1)], []):
        (job,) = await bench.take()
        assert await bench.ring() == []
        await bench.lapse(job)
        assert (await recovery.recover(bench.bus, bench.queue, max_stalled=1)).dead == [job.id]
        assert await bench.ring() == there
        await bench.sound()
    assert await bench.raw("EXISTS", "glimit") == 0


# cancellation


async def test_who_holds_a_job_hears_that_it_shall_end(bench: Bench) -> None:
    pubsub = bench.bus.subscriber().pubsub()
    await pubsub.subscribe(bench.space.events())
    await pubsub.get_message(timeout=DEADLINE_S)
    (job_id,) = await bench.fill([None])
    await bench.take()
    assert await bench.run("cancel", job_id, "why", "the event") == b"asked"
    message = await pubsub.get_message(timeout=DEADLINE_S)
    await pubsub.aclose()
    assert message is not None
    assert message["data"] == b"the event"


async def test_the_last_job_of_a_lane_takes_the_default_ceiling_along_when_it_is_cancelled(bench: Bench) -> None:
    await limits.set_default_lane_limit(bench.bus, bench.queue, 2)
    first, second = await bench.fill([lane(1)] * 2)
    await cancel.request(bench.bus, bench.queue, first, "why")
    assert await bench.raw("HGET", "glimit", lane(1)) == b"2"
    await cancel.request(bench.bus, bench.queue, second, "why")
    assert await bench.raw("HGET", "glimit", lane(1)) is None


# flows


async def test_an_acknowledgement_from_before_an_obliteration_takes_nothing_off(bench: Bench) -> None:
    await bench.raw("RPUSH", "flow:outbox", "unreadable")  # again, in the queue's next life
    assert await bench.run("flow_ack", 1, 1, "unreadable", "unreadable") == 0
    assert await bench.raw("LLEN", "flow:outbox") == 1
    assert await bench.run("flow_ack", 0, 1, "unreadable", "unreadable") == 1


async def test_the_last_hundred_unreadable_entries_are_kept_for_a_week(bench: Bench) -> None:
    await bench.raw("RPUSH", "flow:rejected", *range(100))
    await bench.raw("RPUSH", "flow:outbox", "bad", "good")
    assert await bench.run("flow_ack", 0, 1, "bad", "bad", "good") == 2
    assert await bench.raw("LRANGE", "flow:rejected", 0, -1) == [*(b"%d" % n for n in range(1, 100)), b"bad"]
    assert 6 * 86_400_000 < await bench.raw("PTTL", "flow:rejected") <= 7 * 86_400_000


async def test_an_end_that_waits_in_the_outbox_is_found_and_no_other_is_taken_for_it(bench: Bench) -> None:
    job_id, parent, other = bench.id(), bench.id(), bench.id()
    spec = {"id": job_id, "parent": parent, "parent_queue": "up", "policy": "fp"}
    part = flows._Part(bench.queue, ("up", parent), [spec], [b"payload"])

    async def look() -> str:
        code, holder, *_ = await flows._send(bench.bus, part, look=True)
        assert holder == job_id
        return code

    assert await look() == "absent"
    filler = f"up\0{parent}\0{other}\0result"
    for end in (f"up\0{parent}\0{job_id}\0result", f"\0fail\0up\0{parent}\0{job_id}\0fp\0why"):
        for before in (0, 499, 500, 1500):  # entries are read in portions
            await bench.raw("DEL", "flow:outbox")
            await bench.raw("RPUSH", "flow:outbox", *[filler] * (before + 2))
            assert await look() == "absent"
            await bench.raw("LSET", "flow:outbox", before, end)
            assert await look() == "settled", (before, end)
    await bench.raw("RPUSH", "flow:outbox", *[filler] * (10_000 - 1502))
    assert await look() == "settled"
    await bench.raw("RPUSH", "flow:outbox", filler)
    with pytest.raises(WrongState, match="too long to look through"):
        await look()


@pytest.mark.parametrize("taken", [0, 1, 2])
async def test_a_flow_of_which_one_id_is_taken_writes_nothing(bench: Bench, taken: int) -> None:
    jobs = [bench.job(b"%d" % n) for n in range(3)]
    await bench.put(replace(jobs[taken], payload=b"other"))
    before = await bench.keys()
    answer = await flows.add(bench.bus, bench.queue, Flow(jobs[0], [Flow(job) for job in jobs[1:]]))
    assert answer == Duplicate(jobs[taken].id, conflict=True)
    assert await bench.keys() == before


async def test_a_parent_waits_for_a_child_that_it_has_heard_nothing_of(bench: Bench) -> None:
    parent, child = bench.id(), bench.id()
    assert await bench.run("flow_missing", parent, child) == b""
    await bench.raw("HSET", f"job:{parent}", "state", "awaiting_children")
    assert await bench.run("flow_missing", parent, child) == b"0"
    await bench.raw("HSET", f"job:{parent}", "flow", 77)
    for record in ("processed", "failed", "unsuccessful"):
        assert await bench.run("flow_missing", parent, child) == b"77"
        await bench.raw("HSET", f"job:{parent}:{record}", child, "x")
        assert await bench.run("flow_missing", parent, child) == b""
        await bench.raw("DEL", f"job:{parent}:{record}")
    await bench.raw("HSET", f"job:{parent}", "state", "pending")
    assert await bench.run("flow_missing", parent, child) == b""


async def test_nothing_is_told_after_the_first_error(bench: Bench) -> None:
    first, second, children = bench.id(), bench.id(), [bench.id() for _ in range(3)]
    for parent in (first, second):
        assert (await bench.run("admit_many", msgpack([{"id": parent, "children": 2}]), b"payload"))[0] == b"held"
    await bench.raw("SET", f"job:{second}:processed", "no hash")
    told = [("done", first, children[0], "", "r"), ("done", second, children[1], "", "r"),
            ("fail", first, children[2], "id", "e")]  # fmt: skip
    new, error = await bench.run("flow_deliver", *(part for one in told for part in one))
    assert new == b"new"
    assert error.startswith(b"ERR WRONGTYPE")
    assert await bench.raw("GET", f"job:{first}:dependencies") == b"1"


# repeats


async def test_a_slot_that_fires_gives_its_job_the_slots_time_and_the_registrations_number(bench: Bench) -> None:
    epoch, number = 1_704_067_200_000, 1008 * 4096
    await bench.raw("HSET", "meta", "repeats", 65_534)
    for n in (65_535, 0, 1):  # registered by peers, which do not number them
        name, slots = f"tick{n}", [epoch + 5, epoch - 5, epoch + 77_000]
        await bench.raw("HSET", f"repeat:{name}", "template", "x", "lane", lane(1), "max_attempts", 4, "timeout", 900)
        await bench.raw("ZADD", "repeat", slots[0], name)
        made = await bench.run("repeat_fire", name, slots[0], slots[2] + 1, *slots)
        places = [ids.parse(job_id.decode()).stream_id for job_id in made]
        assert places == [f"{epoch + ms}-{number + n}" for ms in (5, 0, 77_000)]
        row = await bench.row(made[0].decode())
        assert (row["payload"], row["group"], row["max_attempts"], row["timeout_ms"]) == ("x", lane(1), "4", "900")
        assert await bench.raw("HGET", f"repeat:{name}", "n") == str(n).encode()
        assert await bench.raw("ZSCORE", "repeat_ours", name) == slots[2] + 1, "a peer would fire it without its caps"
        assert await bench.run("repeat_fire", name, slots[0], "", slots[1]) is None, "somebody else was first"
        assert await bench.run("repeat_fire", name, slots[2] + 1, "", slots[0]) == [], "each slot has one id"
        assert await bench.raw("EXISTS", f"repeat:{name}", "repeat", bench.space.key("repeat_ours")) == 0


# settlements, to the millisecond: the reply names the instant


async def settle(bench: Bench, *item: Any) -> tuple[int, list[Any]]:
    """One settlement; the server's instant and verdict, detail and reply."""
    now, verdicts, claimed = await bench.run("settle", msgpack([item]), 5, "fixed:700", 0, 0, 0)
    assert claimed == [0, -1, 0], "nothing was to be claimed"
    return now, verdicts


@pytest.mark.parametrize("chance", [0.0, 0.49, 0.75, 0.999])
@pytest.mark.parametrize(
    "backoff", [Fixed(300), Exponential(1000, 7000, jitter=False), Exponential(1000, 7000), Exponential(1, 4)]
)
async def test_a_retry_waits_exactly_as_long_as_the_backoff_says(
    bench: Bench, backoff: Fixed | Exponential, chance: float
) -> None:
    await bench.put(bench.job(backoff=backoff, max_attempts=9))
    for failures in range(1, 6):
        (job,) = await bench.take()
        now, verdict = await settle(bench, job.id, job.token, "retry", "no", None, chance)
        assert verdict == [b"settled", b"scheduled", None]
        assert await bench.raw("ZSCORE", "schedule", job.id) - now == backoff.delay_ms(failures, chance)
        await bench.due(job.id)


@pytest.mark.parametrize(
    ("kind", "rest", "waits_ms"),
    [
        ("retry", ("no", 250, 0.5), 250),
        ("retry", ("no", None, 0.5), 700),
        ("delay", (900,), 900),
        ("park", (800,), 800),
    ],
)
async def test_a_job_that_comes_back_later_does_so_at_that_instant(
    bench: Bench, kind: str, rest: tuple[Any, ...], waits_ms: int
) -> None:
    job = bench.job(dedup=Dedup("k", 50_000))
    await bench.put(job)
    (taken,) = await bench.take()
    now, _ = await settle(bench, job.id, taken.token, kind, *rest)
    assert await bench.raw("ZSCORE", "schedule", job.id) - now == waits_ms
    key_ends = await bench.raw("PEXPIRETIME", "de:k")
    assert abs(key_ends - now - waits_ms - 50_000) < 200, "its key outlives the wait by the whole window"


async def test_a_delay_may_name_the_instant_itself(bench: Bench) -> None:
    await bench.fill([None])
    (job,) = await bench.take()
    _, verdict = await settle(bench, job.id, job.token, "delay", 5, 4_000_000_000_000)
    assert verdict == [b"settled", b"scheduled", None]
    assert await bench.raw("ZSCORE", "schedule", job.id) == 4_000_000_000_000


async def test_a_failure_that_no_effect_caused_names_its_cause(bench: Bench) -> None:
    await bench.fill([None])
    (job,) = await bench.take()
    await bench.raw("SET", "dead", "no set")
    _, (verdict, detail, _) = await settle(bench, job.id, job.token, "discard", "no")
    assert (verdict, detail.partition(b" ")[0]) == (b"effect_failed", b"WRONGTYPE")


# marks


async def test_a_mark_and_the_lease_that_it_renews_have_lives_of_their_own(bench: Bench) -> None:
    async def lives(job_id: str) -> tuple[int, int]:
        (field,) = await bench.raw("HPTTL", f"job:{job_id}", "FIELDS", 1, "lock")
        return await bench.raw("PTTL", f"job:{job_id}:lock"), field

    await bench.fill([None, None])
    one, two = await bench.take(2)
    assert await bench.run("lock_set", 5_000, one.id, "mine", bench.id(), "mine", two.id, "mine") == [1, 0, 1]
    for left in (*await lives(one.id), *await lives(two.id)):
        assert 0 < left <= 5_000
    before = await bench.raw("ZSCORE", "active", one.id)
    await bench.raw("ZADD", "active", before - 30_000, one.id)
    renewed = await bench.run("lock_refresh", 60_000, 90_000, one.id, one.token, two.id, "9", bench.id(), "1")
    assert renewed == [b"ok", b"stale", b"gone"]
    assert await bench.raw("ZSCORE", "active", one.id) >= before
    assert await bench.raw("ZSCORE", "active", one.id) < before + 25_000
    assert all(60_000 < left <= 90_000 for left in (await lives(one.id)))
    assert all(left <= 5_000 for left in (await lives(two.id)))
    assert await bench.raw("GET", f"job:{one.id}:lock") == one.token.encode()
    assert await bench.run("lock_clear", one.id, "other", one.id, one.token, two.id, "mine") == [0, 1, 1]
    assert await bench.raw("EXISTS", f"job:{one.id}:lock", f"job:{two.id}:lock") == 0
    assert "lock" not in {**await bench.row(one.id), **await bench.row(two.id)}
