"""What Prometheus sees is what the queues are, under the names that the reference lists."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from codemojex.engine import ids
from codemojex.engine.errors import EngineError
from codemojex.engine.ids import Minter
from codemojex.engine.jobs import claims, jobs
from codemojex.engine.jobs.jobs import Job, NewJob
from codemojex.engine.jobs.outcome import Outcome
from codemojex.engine.jobs.settlement import Gone, Settled
from codemojex.engine.lanes import limits
from codemojex.engine.transport.connector import Connector
from codemojex.ops.metrics import FAMILIES, QueueMetrics, WorkerMetrics, exposition

PAGE = Path(__file__).parents[2] / "docs/reference/metrics.md"
JOB = Job("JOB00000000001", b"", "1", None, 0, 0, "q", 0)


@pytest.fixture
def registry() -> CollectorRegistry:
    return CollectorRegistry()


async def test_a_scrape_shows_the_queue(bus: Connector, queue: str, registry: CollectorRegistry) -> None:
    mint = Minter(5)
    lane = ids.derive("CHT", "1")
    await jobs.admit_many(bus, queue, [NewJob(mint.mint("JOB"), b"", lane) for _ in range(3)])
    await jobs.admit_many(bus, queue, [NewJob(mint.mint("JOB"), b"", delay_ms=60_000)])
    await limits.set_rate(bus, queue, 4, 60_000)
    await limits.set_concurrency(bus, queue, 9)
    await claims.claim_many(bus, queue, 1, 60_000)
    seen = QueueMetrics(registry, lambda: 100.0)
    await seen.refresh(bus, [queue])

    def value(name: str, **labels: str) -> float | None:
        return registry.get_sample_value(name, {"queue": queue, **labels})

    states = [value("emq_jobs", state=state) for state in ("pending", "active", "scheduled", "dead")]
    assert states == [2, 1, 1, 0]
    assert value("emq_lane_depth", lane=lane) == 2
    assert value("emq_lanes", state="waiting") == 1
    assert (value("emq_limiter_left"), value("emq_concurrency_limit"), value("emq_queue_paused")) == (3, 9, 0)
    assert value("emq_jobs_completed_total") == 0
    assert value("emq_snapshot_age_seconds") == 0
    assert f'emq_lane_depth{{lane="{lane}",queue="{queue}"}} 2.0' in exposition(registry).decode()


async def test_a_lane_and_a_queue_that_are_gone_leave_no_series(
    bus: Connector, queue: str, registry: CollectorRegistry
) -> None:
    lane = ids.derive("CHT", "1")
    await jobs.admit(bus, queue, NewJob(Minter(5).mint("JOB"), b"", lane))
    seen = QueueMetrics(registry)
    await seen.refresh(bus, [queue])
    assert lane in exposition(registry).decode()
    await claims.claim_many(bus, queue, 1, 60_000)
    await seen.refresh(bus, [queue])
    assert lane not in exposition(registry).decode()
    await seen.refresh(bus, [])
    assert queue not in exposition(registry).decode()


async def test_numbers_age_when_the_server_does_not_answer(
    bus: Connector, queue: str, registry: CollectorRegistry
) -> None:
    now = 10.0
    seen = QueueMetrics(registry, lambda: now)
    await seen.refresh(bus, [queue])
    await bus.execute("SET", f"emq:{{{queue}}}:active", "no set")
    now = 75.0
    with pytest.raises(EngineError):
        await seen.refresh(bus, [queue])
    assert registry.get_sample_value("emq_snapshot_age_seconds", {"queue": queue}) == 65


async def test_workers_are_counted_by_what_they_tell(registry: CollectorRegistry) -> None:
    worker = WorkerMetrics(registry)
    worker.observe("worker.claimed", {"queue": "q", "jobs": 3})
    worker.observe("worker.settled", {"queue": "q", "verdict": Settled("completed")})
    worker.observe("worker.settled", {"queue": "q", "verdict": Gone()})
    worker.observe("worker.lease_lost", {"queue": "q", "job": "JOB1"})

    async def fail(given: list[Job]) -> Sequence[Outcome | None]:
        raise ValueError

    with pytest.raises(ValueError):  # noqa: PT011
        await worker.middleware([JOB], fail)

    def value(name: str, **labels: str) -> float | None:
        return registry.get_sample_value(name, {"queue": "q", **labels})

    assert value("emq_worker_claimed_total") == 3
    assert value("emq_worker_settled_total", result="completed") == 1
    assert value("emq_worker_settled_total", result="gone") == 1
    assert value("emq_worker_events_total", event="worker.lease_lost") == 1
    assert value("emq_handler_seconds_count") == 1


def test_the_reference_lists_every_metric_and_no_other(registry: CollectorRegistry) -> None:
    QueueMetrics(registry)
    WorkerMetrics(registry)
    listed = set(re.findall(r"^\| `(emq_\w+)` \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE))
    shown = set(re.findall(r"^# TYPE (\w+) ", exposition(registry).decode(), re.MULTILINE))
    shown = {name for name in shown if not name.endswith("_created")}
    assert listed == shown
    assert {family.name for family in FAMILIES} < listed
