"""A server without memory takes no new work, and finishes or keeps what it has."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable

import pytest

from codemojex.engine.errors import ServerFull
from codemojex.engine.jobs import jobs
from codemojex.engine.jobs.outcome import Delay, Discard, GiveBack, Outcome, Park, Retry
from codemojex.engine.jobs.settlement import EffectFailure, Settled
from codemojex.engine.maintenance import recovery
from codemojex.engine.transport.connector import Connector
from tests.engine.bench import Bench, lane
from tests.support.valkey import ValkeyServer


@pytest.fixture
async def small(start_valkey: Callable[..., ValkeyServer], queue: str) -> AsyncIterator[Bench]:
    bus = await Connector.connect(start_valkey().url)
    yield Bench(bus, queue)
    await bus.close()


async def memory(bench: Bench, limit: int) -> None:
    await bench.bus.execute("CONFIG", "SET", "maxmemory", limit)


async def test_admission_says_that_the_server_is_full_and_writes_nothing(small: Bench) -> None:
    await memory(small, 1)
    with pytest.raises(ServerFull, match="maxmemory"):
        await jobs.admit(small.bus, small.queue, small.job(lane=lane(1)))
    refused = await small.put(small.job(), small.job())
    assert [type(verdict) for verdict in refused] == [jobs.AdmissionRefused] * 2
    assert await small.keys() == {}


@pytest.mark.parametrize(
    "outcome", [Retry("no"), Delay(5), Discard("no"), GiveBack(), Park(5)], ids=lambda o: type(o).__name__
)
async def test_an_outcome_that_needs_memory_leaves_its_job_in_flight(small: Bench, outcome: Outcome) -> None:
    await small.fill([lane(1)] * 2)
    (job,) = await small.take()
    await memory(small, 1)
    verdict = await small.settle(job, outcome)
    assert isinstance(verdict, EffectFailure)
    assert "OOM" in verdict.reason
    await small.sound()
    await memory(small, 0)
    assert isinstance(await small.settle(job, outcome), Settled)
    await small.sound()


async def test_claims_completions_and_recoveries_go_on(small: Bench) -> None:
    await small.fill([lane(1), lane(1), None, None])
    await memory(small, 1)
    one, two, *_ = await small.take(3)
    assert await small.settle(one) == Settled("completed")
    await memory(small, 0)
    await small.lapse(two)
    await memory(small, 1)
    assert (await recovery.recover(small.bus, small.queue)).waiting == [two.id]
    await small.sound()
