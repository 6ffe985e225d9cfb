"""What a peer's plain verbs leave behind: our fences, counters, keys and seats hold over it."""

from __future__ import annotations

import pytest

from codemojex.engine.errors import StaleToken
from codemojex.engine.inspection import admin
from codemojex.engine.jobs import cancel, jobs, settlement
from codemojex.engine.jobs.cancel import Answer
from codemojex.engine.jobs.jobs import Dedup, Duplicate, Enqueued, Job
from codemojex.engine.jobs.outcome import Complete, Delay, Discard, GiveBack, Outcome, Park, Retry
from codemojex.engine.jobs.settlement import Policy, Settled, Stale
from codemojex.engine.lanes import lanes, limits
from codemojex.engine.maintenance import recovery
from tests.engine.bench import LEASE, Bench, lane
from tests.support.peer import Peer

CAP = 3
SOON = Retry("no", 0)


async def again(bench: Bench) -> None:
    """What waits for a time is due."""
    for job_id in await bench.raw("ZRANGE", "schedule", 0, -1):
        await bench.due(job_id.decode())
    await bench.run("promote", 100)


async def tries(bench: Bench, peer: Peer, turns: str) -> tuple[int, int]:
    """One job fails in turn at us (`o`) and at the peer (`p`), or comes back from us without a failure (`g`, `d`, `l`).

    How many attempts there were, and how many of them failed, when it was dead; (0, 0) when it never was.
    """
    failed = 0
    for number, turn in enumerate(turns, 1):
        if turn == "p":
            found = await peer.claim_flat(LEASE)
            assert found is not None
            await peer.retry(found.id, found.token, 0, CAP, "no")
            failed += 1
        else:
            (job,) = await bench.take()
            if turn == "l":
                await bench.lapse(job)
                await recovery.recover(bench.bus, bench.queue)
            else:
                await bench.settle(job, {"o": SOON, "g": GiveBack(), "d": Delay(0)}[turn], Policy(CAP))
                failed += turn == "o"
        await bench.sound()
        if await bench.raw("ZCARD", "dead"):
            return number, failed
        await again(bench)
    return 0, 0


# Failures: attempts of a peer count as they count there.


@pytest.mark.parametrize("turns", ["ppo", "opo", "poo", "oop", "opp", "pop", "ppp", "ooo"])
async def test_a_cap_counts_the_failures_of_both_engines(bench: Bench, turns: str) -> None:
    await bench.fill([None])
    assert await tries(bench, Peer(bench.bus, bench.queue), turns) == (3, 3)


@pytest.mark.parametrize("turns", ["gdlogldogdo", "ogldogldo", "gggooo", "logloo"])
async def test_what_we_interrupt_counts_for_nobody_here(bench: Bench, turns: str) -> None:
    await bench.fill([None])
    _, failed = await tries(bench, Peer(bench.bus, bench.queue), turns)
    assert failed == 3


async def test_what_we_interrupt_between_a_peers_attempts_is_not_counted_as_the_peers(bench: Bench) -> None:
    await bench.fill([None])
    assert await tries(bench, Peer(bench.bus, bench.queue), "pggldoggo") == (9, 3)


async def test_a_peer_counts_our_interruptions_because_it_counts_attempts(bench: Bench) -> None:
    # Its rule is `attempts >= max`, and attempts are the token: to lower them would hand out one token twice.
    await bench.fill([None])
    assert await tries(bench, Peer(bench.bus, bench.queue), "ggp") == (3, 1)


async def test_a_handler_is_told_of_the_attempts_that_failed_at_a_peer(bench: Bench) -> None:
    peer = Peer(bench.bus, bench.queue)
    await bench.fill([None])
    found = await peer.claim_flat(LEASE)
    assert found is not None
    await peer.retry(found.id, found.token, 0, CAP, "no")
    await again(bench)
    (job,) = await bench.take()
    assert (job.token, job.failures) == ("2", 1)
    await bench.settle(job, GiveBack())
    (job,) = await bench.take()
    assert (job.token, job.failures) == ("3", 1)


async def test_what_a_peer_let_lapse_is_a_lapse_when_we_take_it_back(bench: Bench) -> None:
    peer = Peer(bench.bus, bench.queue)
    await bench.fill([None])
    for _ in range(2):
        found = await peer.claim_flat(LEASE)
        assert found is not None
        await peer.retry(found.id, found.token, 0, 9, "no")
        await again(bench)
    found = await peer.claim_flat(LEASE)
    assert found is not None
    await bench.raw("ZADD", "active", "XX", 1, found.id)
    await recovery.recover(bench.bus, bench.queue)
    (job,) = await bench.take()
    assert (job.token, job.failures, job.stalled) == ("4", 2, 1)


# The token after a peer's recovery.

ENDS = [Complete(), Retry("no", 60_000), Retry("no", 0), Delay(60_000), Discard("no"), GiveBack(), Park(60_000)]


def named(outcome: Outcome) -> str:
    return type(outcome).__name__


@pytest.mark.parametrize("sweep", ["reap", "stalled"])
@pytest.mark.parametrize("where", [None, lane(1)], ids=["flat", "lane"])
@pytest.mark.parametrize("mates", [0, 2])
@pytest.mark.parametrize("outcome", ENDS, ids=named)
async def test_a_token_holds_after_a_peers_recovery_until_the_next_claim(
    bench: Bench, sweep: str, where: str | None, mates: int, outcome: Outcome
) -> None:
    if where:
        await lanes.limit(bench.bus, bench.queue, where, 1)
    await bench.fill([where] * (1 + mates))
    (job,) = await bench.take()
    await bench.lapse(job)
    await recovered(bench, sweep)
    await bench.sound()
    assert isinstance(await bench.settle(job, outcome), Settled)
    await bench.sound()
    assert await bench.settle(job, outcome) != Settled("completed"), "a repeat changes nothing"
    await bench.sound()
    assert await bench.raw("ZCARD", "active") == 0


async def recovered(bench: Bench, sweep: str) -> None:
    peer = Peer(bench.bus, bench.queue)
    assert await (peer.reap() if sweep == "reap" else peer.stalled(9)) == 1


async def test_a_repeat_of_a_settlement_is_refused_though_a_peer_brought_the_job_back(bench: Bench) -> None:
    peer = Peer(bench.bus, bench.queue)
    await bench.fill([None])
    (job,) = await bench.take()
    await bench.lapse(job)
    await peer.reap()
    for outcome in (Retry("no", 0), Complete()):
        verdict = await bench.settle(job, outcome)
        assert isinstance(verdict, Settled if isinstance(outcome, Retry) else Stale)
        await bench.raw("ZADD", "schedule", "XX", 1, job.id)
        await peer.promote()
        assert (await bench.row(job.id))["state"] == "pending"
    found = await peer.claim_flat(LEASE)
    assert found
    assert found.token == "2"
    assert await bench.settle(job) == Stale()


async def test_a_job_that_nobody_claimed_has_no_holder(bench: Bench) -> None:
    (job_id,) = await bench.fill([None])
    with pytest.raises(StaleToken):
        await settlement.complete(bench.bus, bench.queue, job_id, "0")
    assert (await bench.row(job_id))["state"] == "pending"


# Idempotency keys whose holder is gone.


def once(bench: Bench, release: str = "window") -> jobs.NewJob:
    return bench.job(dedup=Dedup("k", 60_000, "claim" if release == "claim" else "window"))


@pytest.mark.parametrize("release", ["window", "claim"])
async def test_a_key_whose_job_a_peer_completed_is_free(bench: Bench, release: str) -> None:
    peer, first, second = Peer(bench.bus, bench.queue), once(bench, release), once(bench, release)
    assert await bench.put(first, second) == [Enqueued(), Duplicate(first.id)]
    found = await peer.claim_flat(LEASE)
    assert found is not None
    await peer.complete(found.id, found.token)
    assert await bench.put(second) == [Enqueued()]
    assert await admin.get_dedup(bench.bus, bench.queue, "k") == second.id


async def test_a_key_until_the_claim_is_free_when_a_peer_claims(bench: Bench) -> None:
    peer, first, second = Peer(bench.bus, bench.queue), once(bench, "claim"), once(bench, "claim")
    await bench.put(first)
    await peer.claim_flat(LEASE)
    third = once(bench, "claim")
    assert await bench.put(second, third) == [Enqueued(), Duplicate(second.id)]


async def test_a_window_stays_when_a_peer_claims_and_when_we_complete(bench: Bench) -> None:
    peer, first, second = Peer(bench.bus, bench.queue), once(bench), once(bench)
    await bench.put(first)
    assert await peer.claim_flat(LEASE)
    assert await bench.put(second) == [Duplicate(first.id)]
    await bench.raw("ZADD", "active", "XX", 1, first.id)
    await peer.reap()
    (job,) = await bench.take()
    await bench.settle(job)
    assert await bench.put(second) == [Duplicate(first.id)]
    assert 0 < await bench.raw("PTTL", "done:k") <= 60_000
    await bench.raw("DEL", "done:k")  # nobody says any more that it was completed here
    assert await bench.put(second) == [Enqueued()]


async def test_the_mark_of_an_earlier_job_does_not_hold_the_key_for_a_later_one(bench: Bench) -> None:
    peer, first, second, third = Peer(bench.bus, bench.queue), once(bench), once(bench), once(bench)
    await bench.put(first)
    (job,) = await bench.take()
    await bench.settle(job)
    await bench.raw("DEL", "de:k")
    await bench.put(second)
    found = await peer.claim_flat(LEASE)
    assert found is not None
    await peer.complete(found.id, found.token)
    assert await bench.put(third) == [Enqueued()]


async def test_a_key_that_a_peer_parked_holds_while_its_job_is_there(bench: Bench) -> None:
    (held,) = await bench.fill([None])
    await bench.raw("SET", "de:k", held)
    new = once(bench)
    assert await bench.put(new) == [Duplicate(held)]
    await admin.remove_job(bench.bus, bench.queue, held)
    assert await bench.put(new) == [Enqueued()]


# A lane's job in the flat backlog.


async def reprocessed_flat(bench: Bench, *names: str) -> list[str]:
    peer, ids = Peer(bench.bus, bench.queue), await bench.fill(names)
    for job in await bench.take(len(ids)):
        await bench.settle(job, Discard("no"))
    for job_id in ids:
        assert await peer.reprocess(job_id)
    assert await bench.raw("ZCARD", "pending") == len(ids)
    return ids


async def test_a_lanes_job_in_the_flat_backlog_takes_a_seat_and_gives_it_back(bench: Bench) -> None:
    (again,) = await reprocessed_flat(bench, lane(1))
    (job,) = await bench.take()
    assert (job.id, job.lane) == (again, lane(1))
    assert await bench.raw("HGET", "gactive", lane(1)) == b"1"
    await bench.sound()
    await bench.settle(job)
    await bench.sound()
    assert not await bench.raw("EXISTS", "gactive")


@pytest.mark.parametrize("how", ["own", "default"])
async def test_the_ceiling_holds_for_lanes_jobs_in_the_flat_backlog(bench: Bench, how: str) -> None:
    ids = await reprocessed_flat(bench, *[lane(1)] * 3, lane(2))
    if how == "own":
        await lanes.limit(bench.bus, bench.queue, lane(1), 1)
    else:
        await limits.set_default_lane_limit(bench.bus, bench.queue, 1)
    served: list[Job] = []
    while len(served) < 4:
        some = (await bench.claim(10)).jobs
        assert sum(job.lane == lane(1) for job in some) == 1
        await bench.sound()
        for job in some:
            await bench.settle(job)
        served += some
        await bench.sound()
    assert sorted(job.id for job in served) == sorted(ids)


async def test_a_paused_lane_is_not_served_from_the_flat_backlog(bench: Bench) -> None:
    await reprocessed_flat(bench, lane(1))
    await lanes.pause(bench.bus, bench.queue, lane(1))
    assert not (await bench.claim(5)).jobs
    await bench.sound()
    await lanes.resume(bench.bus, bench.queue, lane(1))
    await bench.take()


async def test_a_flat_claim_leaves_a_lanes_job_to_its_lane(bench: Bench) -> None:
    (again,) = await reprocessed_flat(bench, lane(1))
    (flat,) = await bench.fill([None])
    assert [job.id for job in (await bench.claim(5, mode="flat")).jobs] == [flat]
    await bench.sound()
    assert [job.id for job in (await bench.claim(5)).jobs] == [again]


async def test_a_lanes_job_in_the_flat_backlog_moves_and_ends_without_a_trace(bench: Bench) -> None:
    moved, late = await reprocessed_flat(bench, lane(1), lane(1))
    assert await lanes.move(bench.bus, bench.queue, moved, lane(2)) == "moved"
    assert await bench.raw("ZRANGE", "pending", 0, -1) == [late.encode()]
    await bench.raw("HDEL", f"job:{late}", "counted")  # as if its holder had been buried by a peer's stalled sweep
    assert await settlement.complete(bench.bus, bench.queue, late, "1") == Settled("completed")
    assert await bench.raw("ZCARD", "pending") == 0
    await bench.sound()


# A request to cancel, and what else ends with a life.


async def test_a_request_to_cancel_ends_with_the_life_that_it_was_made_in(bench: Bench) -> None:
    peer = Peer(bench.bus, bench.queue)
    (job_id,) = await bench.fill([None])
    found = await peer.claim_flat(LEASE)
    assert found is not None
    assert await cancel.request(bench.bus, bench.queue, job_id, "too late") == Answer.ASKED
    await peer.retry(job_id, found.token, 0, 1, "no")
    assert await peer.reprocess(job_id)
    (job,) = await bench.take()
    assert job.id == job_id
    assert not (await settlement.renew_many(bench.bus, bench.queue, [(job.id, job.token)], LEASE)).cancelled


@pytest.mark.parametrize("back", ["reap", "retry", "ours"])
async def test_a_request_to_cancel_is_kept_when_its_attempt_ends_otherwise(bench: Bench, back: str) -> None:
    peer = Peer(bench.bus, bench.queue)
    (job_id,) = await bench.fill([None])
    found = await peer.claim_flat(LEASE)
    assert found is not None
    await cancel.request(bench.bus, bench.queue, job_id, "enough")
    if back == "retry":
        await peer.retry(job_id, found.token, 0, 9, "no")
        await again(bench)
    else:
        await bench.raw("ZADD", "active", "XX", 1, job_id)
        await (peer.reap() if back == "reap" else recovery.recover(bench.bus, bench.queue))
    assert not (await bench.claim()).jobs
    assert (await bench.row(job_id))["last_error"] == "cancelled: enough"
    assert await peer.reprocess(job_id)
    assert (await bench.take())[0].id == job_id


async def test_what_expired_lives_again_after_a_peers_reprocess(bench: Bench) -> None:
    peer, new = Peer(bench.bus, bench.queue), bench.job(expires_at_ms=1)
    await bench.put(new)
    assert not (await bench.claim()).jobs
    assert await peer.reprocess(new.id)
    assert (await bench.take())[0].id == new.id
