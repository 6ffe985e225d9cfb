"""The claim called by itself: its reply word by word, and its steps."""

from __future__ import annotations

from typing import Literal

import pytest

from codemojex.engine.jobs.jobs import Dedup
from tests.engine.bench import Bench, lane


async def test_a_claim_says_all_of_each_job_and_leases_it_from_the_instant_that_it_names(bench: Bench) -> None:
    assert (await bench.run("claim_many", 2, 5_000, 1_000, "all"))[1] == [0, -1, 0]
    flat, other = await bench.fill([None, None])
    grouped = bench.job(b"payload", lane=lane(1), timeout_ms=900)
    await bench.put(grouped, bench.job(delay_ms=50_000))
    await bench.raw("HSET", f"job:{flat}", "failures", 2, "stalled", 1)
    now, reply = await bench.run("claim_many", 2, 5_000, 1_000, "all")
    texts = [part.encode() for part in (grouped.id, "payload", "1", lane(1), "0", "0", "900")]
    texts += [part.encode() for part in (flat, "x", "1", "", "2", "1", "")]
    assert reply == [0, -1, 0, *texts], "a full claim says nothing of what is due later"
    _, reply = await bench.run("claim_many", 2, 5_000, 1_000, "all")
    assert (reply[0], reply[2], reply[3]) == (0, 0, other.encode())
    assert 30_000 < reply[1] <= 50_000
    for job_id in (flat, grouped.id):
        assert await bench.raw("ZSCORE", "active", job_id) == now + 5_000
    assert (await bench.row(flat))["state"] == (await bench.row(grouped.id))["state"] == "active"
    await bench.raw("HSET", "meta", "paused", 1)
    assert (await bench.run("claim_many", 2, 5_000, 1_000, "all"))[1] == [0, -1, 1]


@pytest.mark.parametrize(("name", "left"), [(None, 48), (lane(1), 49)])  # the turn of a lane is a step as well
async def test_a_claim_takes_so_many_steps_and_asks_to_be_called_again(
    bench: Bench, name: str | None, left: int
) -> None:
    place = f"g:{name}:pending" if name else "pending"
    await bench.raw("ZADD", place, *(part for _ in range(250) for part in (0, bench.id())))
    if name:
        await bench.raw("RPUSH", "ring", name)
    assert (await bench.run("claim_many", 1, 5_000, 1_000, "all"))[1] == [0, 1, 0]
    assert await bench.raw("ZCARD", place) == left
    assert await bench.ring() == [name] * bool(name)
    assert (await bench.run("claim_many", 1, 5_000, 1_000, "all"))[1] == [0, -1, 0]
    assert set(await bench.keys()) <= {"credit"}


@pytest.mark.parametrize("release", ["window", "claim"])
async def test_a_job_that_expired_keeps_its_key_for_the_window_and_frees_one_that_its_claim_would_free(
    bench: Bench, release: Literal["window", "claim"]
) -> None:
    await bench.put(bench.job(expires_at_ms=1, dedup=Dedup("k", 60_000, release)), bench.job(expires_at_ms=1))
    assert (await bench.claim(3)).jobs == []
    assert await bench.raw("ZCARD", "dead") == 2
    assert await bench.raw("EXISTS", "de:k") == (release == "window")


@pytest.mark.parametrize("release", ["window", "claim"])
async def test_a_renewed_lease_carries_the_key_of_a_window_along(
    bench: Bench, release: Literal["window", "claim"]
) -> None:
    await bench.put(bench.job(dedup=Dedup("k", 60_000, release)))
    (job,) = await bench.take()
    assert await bench.run("extend", 90_000, job.id, job.token) == [b"ok"]
    left_ms = await bench.raw("PTTL", "de:k")
    assert (140_000 < left_ms <= 150_000) if release == "window" else left_ms == -2
