"""Shows queues and workers to Prometheus, under the names of docs/reference/metrics.md.

A queue's numbers come from a snapshot that `refresh` takes, so a scrape never waits for the server and one that fails
leaves the last numbers with their age. What workers do is counted in their own process. Labels are bounded: lanes
appear only while they are among the deepest.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from codemojex.engine.inspection.metrics import QueueSnapshot, snapshot
from codemojex.engine.jobs.jobs import Job
from codemojex.engine.jobs.outcome import Outcome
from codemojex.engine.jobs.settlement import Settled
from codemojex.engine.transport.connector import Connector
from codemojex.engine.worker.middleware import Work

_BUCKETS = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
Values = Iterable[tuple[str, float]]  # the second label's value, '' without one


@dataclass(frozen=True, slots=True)
class _Family:
    """One metric of every queue: how it is called, what it says, and how it is read from a snapshot."""

    name: str
    help: str
    read: Callable[[QueueSnapshot], Values]
    label: str = ""
    total: bool = False


def _s(ms: float) -> Values:
    return [("", ms / 1000)]


def _states(seen: QueueSnapshot) -> Values:
    counts = seen.counts
    return [
        ("pending", counts.pending),
        ("active", counts.active),
        ("scheduled", counts.scheduled),
        ("dead", counts.dead),
    ]


def _lanes(seen: QueueSnapshot) -> Values:
    counts = seen.counts
    return [
        ("waiting", counts.lanes),
        ("serviceable", counts.lanes_serviceable),
        ("paused", counts.lanes_paused),
        ("resting", counts.lanes_resting),
        ("active", counts.lanes_active),
    ]


FAMILIES = (
    _Family("emq_jobs", "Jobs by where they are.", _states, "state"),
    _Family("emq_jobs_completed_total", "Jobs completed.", lambda s: [("", s.counts.completed)], total=True),
    _Family("emq_jobs_failed_total", "Jobs that became dead letters.", lambda s: [("", s.counts.failed)], total=True),
    _Family(
        "emq_loop_blocked_total",
        "Times that a handler blocked its event loop past a part of its lease.",
        lambda s: [("", s.counts.blocked)],
        total=True,
    ),
    _Family("emq_oldest_job_age_seconds", "Age of the oldest waiting job.", lambda s: _s(s.counts.oldest_age_ms or 0)),
    _Family("emq_lanes", "Lanes by condition.", _lanes, "state"),
    _Family(
        "emq_lane_depth",
        "Jobs waiting in each of the deepest lanes.",
        lambda s: [(lane.lane, lane.depth) for lane in s.top_lanes],
        "lane",
    ),
    _Family("emq_leases_lapsed", "Jobs in flight whose lease has lapsed.", lambda s: [("", s.leases.lapsed)]),
    _Family("emq_lease_overdue_seconds", "Since when the first lapsed lease waits.", lambda s: _s(s.counts.overdue_ms)),
    _Family(
        "emq_limiter_left",
        "Jobs that the queue's budget still allows now.",
        lambda s: [] if s.limiter.left is None else [("", s.limiter.left)],
    ),
    _Family("emq_limiter_wait_seconds", "Until the budget allows a job again.", lambda s: _s(s.limiter.limited_ms)),
    _Family(
        "emq_concurrency_limit",
        "Most jobs of the queue in flight.",
        lambda s: [] if s.concurrency is None else [("", s.concurrency)],
    ),
    _Family(
        "emq_outbox_entries",
        "Ends of children that parents in other queues have not heard of.",
        lambda s: [("", s.counts.outbox)],
    ),
    _Family("emq_waiting_parents", "Jobs that wait for their children.", lambda s: [("", s.counts.parents)]),
    _Family(
        "emq_oldest_waiting_parent_age_seconds",
        "Since when the oldest of them waits.",
        lambda s: _s(s.counts.oldest_parent_age_ms or 0),
    ),
    _Family("emq_queue_paused", "1 while the queue is paused.", lambda s: [("", int(s.counts.paused))]),
)
AGE = "emq_snapshot_age_seconds"


class QueueMetrics(Collector):
    """Collects the families above. Give it to a registry, and call `refresh` on a beat."""

    def __init__(self, registry: CollectorRegistry, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._snapshots: dict[str, tuple[QueueSnapshot, float]] = {}
        self._monotonic = monotonic
        registry.register(self)

    async def refresh(self, bus: Connector, queues: Sequence[str], *, top: int = 10) -> None:
        """Take a snapshot of every queue; those not named any more disappear."""
        taken = {queue: (await snapshot(bus, queue, top=top), self._monotonic()) for queue in queues}
        self._snapshots = taken

    def collect(self) -> Iterator[Metric]:
        """What a scrape sees."""
        for family in FAMILIES:
            labels = ["queue", *([family.label] if family.label else [])]
            kind = CounterMetricFamily if family.total else GaugeMetricFamily
            metric = kind(family.name, family.help, labels=labels)
            for queue, (seen, _) in self._snapshots.items():
                for value, number in family.read(seen):
                    metric.add_metric([queue, *([value] if family.label else [])], number)
            yield metric
        age = GaugeMetricFamily(AGE, "Age of the numbers of this queue.", labels=["queue"])
        for queue, (_, at) in self._snapshots.items():
            age.add_metric([queue], self._monotonic() - at)
        yield age


class WorkerMetrics:
    """Counts what the workers of this process do: hand out `observe` and `middleware` to them."""

    def __init__(self, registry: CollectorRegistry) -> None:
        def counter(name: str, text: str, *labels: str) -> Counter:
            return Counter(name, text, ["queue", *labels], registry=registry)

        self._claimed = counter("emq_worker_claimed_total", "Jobs claimed.")
        self._settled = counter("emq_worker_settled_total", "Attempts ended, by what became of the job.", "result")
        self._events = counter("emq_worker_events_total", "What else the engine told, by name.", "event")
        self._seconds = Histogram(
            "emq_handler_seconds", "Time of handler calls.", ["queue"], registry=registry, buckets=_BUCKETS
        )
        self._trips = Histogram(
            "emq_round_trip_seconds", "Time of round trips to the server.", registry=registry, buckets=_BUCKETS
        )

    def observe(self, name: str, data: Mapping[str, object]) -> None:
        """Count one event of the engine, whoever tells it."""
        queue = str(data.get("queue", ""))
        if name == "worker.claimed":
            jobs = data.get("jobs")
            self._claimed.labels(queue).inc(jobs if isinstance(jobs, int) else 0)
        elif name == "worker.settled":
            verdict = data.get("verdict")
            result = verdict.state if isinstance(verdict, Settled) else type(verdict).__name__.lower()
            self._settled.labels(queue, result).inc()
        elif name == "connector.pipeline.stop":
            duration = data.get("duration")
            self._trips.observe(duration / 1000 if isinstance(duration, int | float) else 0)
        else:
            self._events.labels(queue, name).inc()

    async def middleware(self, jobs: list[Job], work: Work) -> Sequence[Outcome | None]:
        """Time every call of the handler, whether it answers or raises."""
        with self._seconds.labels(jobs[0].queue).time():
            return await work(jobs)


def exposition(registry: CollectorRegistry) -> bytes:
    """The registry in Prometheus' text format."""
    return generate_latest(registry)
