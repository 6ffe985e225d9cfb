"""The price of a job does not depend on how many lanes there are."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable

import pytest

from codemojex.engine.jobs import settlement
from codemojex.engine.jobs.outcome import Complete, GiveBack, Retry
from codemojex.engine.jobs.settlement import Settlement
from codemojex.engine.lanes import limits
from codemojex.engine.transport.connector import Connector
from tests.engine.bench import LEASE, Bench, lane
from tests.support.valkey import ValkeyServer

SCANS = {
    "lpos",
    "lrem",
    "lrange",
    "linsert",
    "smembers",
    "hgetall",
    "hkeys",
    "hvals",
    "zrange",
    "keys",
    "scan",
    "zscan",
}


@pytest.fixture
async def alone(start_valkey: Callable[..., ValkeyServer], queue: str) -> AsyncIterator[Bench]:
    """A queue on a server of its own, so that the server's statistics speak of nothing else."""
    bus = await Connector.connect(start_valkey().url)
    yield Bench(bus, queue)
    await bus.close()


async def commands(bench: Bench) -> dict[str, int]:
    stats = (await bench.bus.execute("INFO", "commandstats")).decode()
    lines = [line.removeprefix("cmdstat_").split(":calls=") for line in stats.split() if line.startswith("cmdstat_")]
    return {name: int(rest.split(",")[0]) for name, rest in lines}


async def day(bench: Bench, lanes: int) -> dict[str, int]:
    """Admit to every lane, then claim and settle in the usual ways; what the server did meanwhile."""
    await bench.fill([lane(i) for i in range(lanes)])
    await bench.bus.execute("CONFIG", "RESETSTAT")
    await bench.fill([lane(i % 20) for i in range(40)])
    held = list((await bench.claim(10)).jobs)
    for _ in range(6):
        outcomes = [Retry("no", 60_000) if i % 3 == 0 else GiveBack() if i % 3 == 1 else Complete() for i in range(10)]
        items = [Settlement(job.id, job.token, out) for job, out in zip(held, outcomes, strict=True)]
        held = list((await settlement.settle_and_claim(bench.bus, bench.queue, items, 10, LEASE))[1].jobs)
    stats = await commands(bench)
    await bench.sound()
    return stats


@pytest.mark.parametrize("ceiling", [None, 1])
async def test_nothing_on_the_hot_path_scans(alone: Bench, ceiling: int | None) -> None:
    await limits.set_default_lane_limit(alone.bus, alone.queue, ceiling)
    await limits.set_rate(alone.bus, alone.queue, 100_000, 60_000)
    stats = await day(alone, 50)
    # The earliest member of a sorted set is one step away, not a scan.
    assert not (SCANS - {"zrange"}) & set(stats)


async def test_the_number_of_commands_is_the_same_with_50_lanes_and_with_5000(
    start_valkey: Callable[..., ValkeyServer], queue: str
) -> None:
    totals: list[int] = []
    for lanes in (50, 5000):
        bus = await Connector.connect(start_valkey().url)
        stats = await day(Bench(bus, queue), lanes)
        totals.append(sum(calls for name, calls in stats.items() if name not in ("info", "script|load", "evalsha")))
        await bus.close()
    few, many = totals
    assert abs(few - many) <= 0.02 * few
