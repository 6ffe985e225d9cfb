"""OpenTelemetry spans that link who admitted a job with who works it; for those who have the library.

A traced job carries its producer's context (W3C `traceparent`) in the row field `trace`; other jobs have no such field.
The worker's side reads it in one round trip per handler call. Without `opentelemetry-api` only the constructor here
fails, with a sentence that says so.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from codemojex.engine import keyspace
from codemojex.engine.error_text import plain
from codemojex.engine.errors import EngineError, InvalidValue
from codemojex.engine.jobs.jobs import Job, NewJob, Verdict, admit_many
from codemojex.engine.jobs.outcome import Discard, Outcome, Retry
from codemojex.engine.transport.connector import Connector
from codemojex.engine.worker.middleware import Middleware, Work

if TYPE_CHECKING:
    from opentelemetry.trace import TracerProvider

_SCOPE = "codemojex.engine"


class Tracing:
    """Makes spans with `provider`, or with the process's own when None."""

    def __init__(self, provider: TracerProvider | None = None) -> None:
        try:  # the library is optional
            from opentelemetry import context, trace  # noqa: PLC0415
            from opentelemetry.trace.propagation import tracecontext  # noqa: PLC0415
        except ImportError:
            raise InvalidValue(
                "tracing needs the package opentelemetry-api: install it, or leave tracing off"
            ) from None
        self._trace = trace
        self._root = context.Context()
        self._tracer = trace.get_tracer(_SCOPE, tracer_provider=provider)
        self._format = tracecontext.TraceContextTextMapPropagator()

    @contextmanager
    def producing(self, queue: str, jobs: Sequence[NewJob]) -> Generator[list[NewJob]]:
        """A producer's span; yields `jobs` with its context, to be admitted inside it."""
        about = _about(queue, "send", [job.id for job in jobs])
        with self._tracer.start_as_current_span(f"send {queue}", kind=self._trace.SpanKind.PRODUCER, attributes=about):
            carrier: dict[str, str] = {}
            self._format.inject(carrier)
            yield [replace(job, trace=carrier.get("traceparent")) for job in jobs]

    async def admit_many(self, bus: Connector, queue: str, jobs: Sequence[NewJob]) -> list[Verdict]:
        """`jobs.admit_many` inside a producer's span."""
        with self.producing(queue, jobs) as traced:
            return await admit_many(bus, queue, traced)

    def middleware(self, bus: Connector) -> Middleware:
        """A worker's side: one span per handler call, linked to every producer; a lone job continues its trace."""

        async def traced(jobs: list[Job], work: Work) -> Sequence[Outcome | None]:
            origins = [self._format.extract({"traceparent": text}) for text in await _carried(bus, jobs)]
            spans = [self._trace.get_current_span(origin).get_span_context() for origin in origins]
            parent = origins[0] if len(jobs) == 1 and origins else self._root
            with self._tracer.start_as_current_span(
                f"process {jobs[0].queue}",
                context=parent,
                kind=self._trace.SpanKind.CONSUMER,
                attributes=_about(jobs[0].queue, "process", [job.id for job in jobs]),
                links=[self._trace.Link(span) for span in spans],
            ) as span:
                outcomes = await work(jobs)
                errors = [outcome.error for outcome in outcomes if isinstance(outcome, Retry | Discard)]
                if errors:
                    span.set_status(self._trace.StatusCode.ERROR, plain(errors[0])[:200])
                return outcomes

        return traced


async def _carried(bus: Connector, jobs: Sequence[Job]) -> list[str]:
    """The contexts that the jobs carry; a server that does not answer costs the links, not the jobs."""
    try:
        replies = await bus.pipeline([("HGET", keyspace.of(job.queue).row(job.id), "trace") for job in jobs])
    except EngineError:
        return []
    return [reply.decode(errors="replace") for reply in replies if isinstance(reply, bytes)]


def _about(queue: str, operation: str, ids: Sequence[str]) -> Mapping[str, str | int]:
    about: dict[str, str | int] = {
        "messaging.system": "echomq",
        "messaging.destination.name": queue,
        "messaging.operation.type": operation,
    }
    if len(ids) == 1:
        about["messaging.message.id"] = ids[0]
    else:
        about["messaging.batch.message_count"] = len(ids)
    return about
