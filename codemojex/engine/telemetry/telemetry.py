"""Tells listeners what happens, under the event names that all engines of the protocol share.

A `Telemetry` is handed to a worker as `observe=telemetry.observe` and `middleware=[telemetry.middleware]`; its helpers
tell what only the application knows. Without listeners everything here does nothing. A listener that raises is
detached, and nobody else notices. Durations are milliseconds.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager

from codemojex.engine.errors import InvalidValue
from codemojex.engine.jobs.jobs import Job
from codemojex.engine.jobs.outcome import Discard, Outcome, Retry
from codemojex.engine.worker.middleware import Work

EVENTS = (
    "emq.connector.connection",
    "emq.connector.disconnection",
    "emq.connector.reconnect",
    "emq.connector.overload",
    "emq.connector.pipeline.stop",
    "emq.job.add",
    "emq.job.start",
    "emq.job.complete",
    "emq.job.fail",
    "emq.job.retry",
    "emq.worker.start",
    "emq.worker.stop",
    "emq.rate_limit.hit",
)

Measurements = Mapping[str, float]
Metadata = Mapping[str, object]
Listener = Callable[[str, Measurements, Metadata], None]


class Telemetry:
    """A switchboard of one process or test; there is no global one."""

    def __init__(self, on_failure: Callable[[str, Exception], None] | None = None) -> None:
        """`on_failure(event, error)` hears of a listener that raised and is detached for it."""
        self._listeners: dict[str, list[Listener]] = {}
        self._on_failure = on_failure

    def attach(self, listener: Listener, *events: str) -> Callable[[], None]:
        """Tell `listener` of `events` (none given: all of `EVENTS`); the answer detaches it again.

        Besides `EVENTS` the names of one's own spans may be given; a misspelt `emq.` name raises InvalidValue.
        """
        for event in events:
            if event.startswith("emq.") and event not in EVENTS:
                raise InvalidValue(f"unknown telemetry event {event!r}: use one of {', '.join(EVENTS)}")
        chosen = events or EVENTS
        for event in chosen:
            self._listeners.setdefault(event, []).append(listener)

        def detach() -> None:
            for event in chosen:
                self._detach(event, listener)

        return detach

    def emit(self, event: str, measurements: Measurements, metadata: Metadata) -> None:
        """Tell the listeners of `event`."""
        for listener in tuple(self._listeners.get(event, ())):
            try:
                listener(event, measurements, metadata)
            except Exception as error:  # a listener never harms what it listens to
                self._detach(event, listener)
                if self._on_failure:
                    self._on_failure(event, error)

    @contextmanager
    def span(self, prefix: str, metadata: Metadata) -> Generator[None]:
        """Tell `<prefix>.start`, then `<prefix>.stop` or `<prefix>.exception` with the duration."""
        self.emit(f"{prefix}.start", {}, metadata)
        began = time.monotonic()
        try:
            yield
        except BaseException as error:
            self.emit(f"{prefix}.exception", {"duration": _since(began)}, {**metadata, "error": error})
            raise
        self.emit(f"{prefix}.stop", {"duration": _since(began)}, metadata)

    def job_add(self, queue: str, job_id: str, queue_time_ms: float) -> None:
        """A producer admitted a job; the admission took `queue_time_ms`."""
        self.emit("emq.job.add", {"queue_time": queue_time_ms}, {"queue": queue, "job_id": job_id})

    async def middleware(self, jobs: list[Job], work: Work) -> Sequence[Outcome | None]:
        """Tell of every job that it starts, and then that it completes, fails or is retried."""
        if not self._listeners:
            return await work(jobs)
        began = time.monotonic()
        for job in jobs:
            self.emit("emq.job.start", {}, _about(job))
        try:
            outcomes = await work(jobs)
        except Exception as error:
            for job in jobs:
                self._failed(job, _since(began), error)
            raise
        for job, outcome in zip(jobs, outcomes, strict=False):
            if isinstance(outcome, Discard | Retry):
                self._failed(job, _since(began), outcome.error)
            if isinstance(outcome, Retry):
                measured = {"attempt": job.failures + 1, "delay": outcome.delay_ms or 0}
                self.emit("emq.job.retry", measured, _about(job))
            elif not isinstance(outcome, Discard):
                self.emit("emq.job.complete", {"duration": _since(began)}, {**_about(job), "outcome": outcome})
        return outcomes

    def observe(self, name: str, data: dict[str, object]) -> None:
        """Understands what a worker tells its `observe`; other names are left alone."""
        about = {"queue": data.get("queue")}
        if name == "worker.started":
            self.emit("emq.worker.start", {"concurrency": _number(data.get("concurrency"))}, about)
        elif name == "worker.stopped":
            self.emit("emq.worker.stop", {"uptime": _number(data.get("uptime_ms"))}, about)
        elif name == "worker.limited":
            self.emit("emq.rate_limit.hit", {"delay": _number(data.get("retry_after_ms"))}, about)
        elif name.startswith("connector.") and f"emq.{name}" in EVENTS:
            numbers = {key: _number(value) for key, value in data.items() if isinstance(value, int | float)}
            self.emit(f"emq.{name}", numbers, {key: value for key, value in data.items() if key not in numbers})

    def _failed(self, job: Job, duration_ms: float, error: object) -> None:
        self.emit("emq.job.fail", {"duration": duration_ms}, {**_about(job), "error": error})

    def _detach(self, event: str, listener: Listener) -> None:
        listeners = self._listeners.get(event, [])
        if listener in listeners:
            listeners.remove(listener)
        if not listeners:
            self._listeners.pop(event, None)


def _about(job: Job) -> dict[str, object]:
    return {"queue": job.queue, "job_id": job.id, "lane": job.lane}


def _since(began: float) -> float:
    return (time.monotonic() - began) * 1000


def _number(value: object) -> float:
    return value if isinstance(value, int | float) else 0
