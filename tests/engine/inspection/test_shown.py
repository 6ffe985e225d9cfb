"""What gauges, explanations and logs say, number by number."""

from __future__ import annotations

from codemojex.engine.lanes import limits
from tests.engine.bench import Bench, lane


async def test_gauges_without_and_with_each_kind_of_limit(bench: Bench) -> None:
    now, *rest = await bench.run("gauges")
    assert rest == [0, b"", b"", b"", 0, b"0", 0, 0, None, -1]
    await bench.raw("ZADD", "active", now - 5, "a", now - 3, "b", now + 60_000, "c", now + 90_000, "d")
    await bench.raw("ZADD", "schedule", now + 50_000, "e")
    await bench.raw("ZADD", "resting", now + 40_000, "f")
    await limits.set_concurrency(bench.bus, bench.queue, 1)
    await limits.set_rate(bench.bus, bench.queue, 5, 60_000)
    await bench.raw("SET", "limiter", 3, "PX", 30_000)
    _, lapsed, first, last, kind, size, window, left, wait, concurrency, due = await bench.run("gauges")
    assert (lapsed, float(first) - now, float(last) - now) == (2, -5, 90_000)
    assert (kind, size, window, left, wait, concurrency) == (b"window", 5, b"60000", 2, 0, 1)
    assert 20_000 < due <= 40_000
    await bench.raw("ZREM", "resting", "f")
    await bench.raw("SET", "limiter", 6, "PX", 30_000)
    *_, left, wait, _, due = await bench.run("gauges")
    assert left == 0
    assert 10_000 < wait <= 30_000
    assert 30_000 < due <= 50_000
    await limits.set_bucket(bench.bus, bench.queue, 0.5, 4)
    await bench.raw("SET", "limiter", now + 3_999)
    *_, kind, size, rate, left, wait, _, _ = await bench.run("gauges")
    assert (kind, size, rate, wait) == (b"bucket", 4, b"0.5", 0)
    assert 2 <= left <= 4


async def test_everything_is_counted_where_it_stands(bench: Bench) -> None:
    now, *rest = await bench.run("counts")
    assert rest == [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, b"", b"", 0, 0, 0, b"", 0]
    for n, (key, score) in enumerate(
        [("pending", 0), ("active", now - 7), ("schedule", 9), ("dead", 0), ("resting", 9), ("parents", now - 5)], 1
    ):
        await bench.raw("ZADD", key, *(part for i in range(n) for part in (score + i, f"{key}{i}")))
    await bench.raw("HSET", "metrics:completed", "count", 11)
    await bench.raw("HSET", "metrics:failed", "count", 12)
    await bench.raw("HSET", "metrics:blocked", "count", 13)
    await bench.raw("RPUSH", "ring", *range(7))
    await bench.raw("SADD", "paused", *range(8))
    await bench.raw("HSET", "gactive", *range(18))
    await bench.raw("RPUSH", "flow:outbox", *range(10))
    await bench.raw("HSET", "meta", "paused", 1)
    _, *rest = await bench.run("counts")
    assert rest[:10] == [1, 2, 3, 4, 11, 12, 7, 8, 5, 9]
    assert (rest[10], float(rest[11]) - now, rest[12:15], float(rest[15]) - now) == (b"pending0", -7, [1, 10, 6], -5)
    assert rest[16] == 13


async def test_a_lane_is_explained_by_everything_that_decides_about_it(bench: Bench) -> None:
    _, *rest = await bench.run("lane_explain", lane(1))
    assert rest == [0, 0, None, 0, None, 0, 0, None, 0, 0, None]
    await bench.fill([lane(2), lane(1), lane(1), lane(3)])
    assert (await bench.run("lane_explain", lane(1)))[-2:] == [3, 1]
    await bench.raw("HSET", "gactive", lane(1), 2)
    await bench.raw("ZADD", "active", 1, "a", 2, "b", 3, "c")
    await bench.raw("HSET", "glimit", lane(1), 7)
    await bench.raw("SADD", "paused", lane(1))
    await bench.raw("ZADD", "resting", 9, lane(1))
    await bench.raw("HSET", "meta", "paused", 1, "concurrency", 4)
    _, *rest = await bench.run("lane_explain", lane(1))
    assert rest[:4] == [2, 2, b"7", 1]
    assert (float(rest[4]), rest[5:]) == (9, [1, 0, 4, 3, 3, 1])


async def test_a_line_of_a_log_is_counted_kept_and_read(bench: Bench) -> None:
    (job_id,) = await bench.fill([None])
    assert [await bench.run("log_add", job_id, text, 2, 60_000) for text in "abc"] == [1, 2, 2]
    assert await bench.run("log_read", job_id, 0, -1) == [b"b", b"c"]
    assert await bench.run("log_read", job_id, 1, 1) == [b"c"]
    assert [await bench.run("log_add", job_id, text, 0, 60_000) for text in "de"] == [3, 4]
    assert 50_000 < await bench.raw("PTTL", f"job:{job_id}:logs") <= 60_000
    missing = bench.id()
    assert await bench.run("log_add", missing, "x", 2, 60_000) == -1
    assert await bench.run("log_read", missing, 0, -1) == -1
    assert await bench.raw("EXISTS", f"job:{missing}:logs") == 0


async def test_repeats_are_due_in_the_order_of_their_slots_and_the_next_one_is_announced(bench: Bench) -> None:
    now, *rest = await bench.run("repeat_due", 10)
    assert rest == [-1]
    await bench.raw("ZADD", "repeat", now - 9, "b", now - 8, "a", now + 70_000, "c", now + 80_000, "d")
    await bench.raw("HSET", "repeat:a", "every_ms", 5, "catch_up", "latest", "until", 9)
    await bench.raw("HSET", "repeat:b", "cron", "* * * * *", "zone", "UTC")
    _, wait_ms, *rest = await bench.run("repeat_due", 10)
    assert 50_000 < wait_ms <= 70_000
    assert rest == [
        *(b"b", str(now - 9).encode(), b"", b"* * * * *", b"UTC", b"", b""),
        *(b"a", str(now - 8).encode(), b"5", b"", b"", b"latest", b"9"),
    ]
    assert (await bench.run("repeat_due", 1))[2:] == rest[:7]
    await bench.raw("ZREM", "repeat", "c", "d")
    assert (await bench.run("repeat_due", 10))[1] == -1
