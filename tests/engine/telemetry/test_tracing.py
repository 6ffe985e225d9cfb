"""A producer's span and a worker's are one story, and only traced jobs pay for it."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from codemojex.engine.errors import InvalidValue
from codemojex.engine.jobs.jobs import Job, NewJob
from codemojex.engine.jobs.outcome import Outcome, Retry
from codemojex.engine.telemetry.tracing import Tracing
from codemojex.engine.testing import FaultyConnector
from codemojex.engine.worker.worker import Worker, WorkerOptions
from tests.engine.bench import Bench

CONTEXT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


class Spans:
    def __init__(self) -> None:
        self._exporter = InMemorySpanExporter()
        provider = TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.tracing = Tracing(provider)

    def of(self, kind: SpanKind) -> list[ReadableSpan]:
        return [span for span in self._exporter.get_finished_spans() if span.kind == kind]


async def middle(spans: Spans, bench: Bench, jobs: Sequence[Job], outcome: Outcome | None = None) -> None:
    async def work(given: list[Job]) -> Sequence[Outcome | None]:
        return [outcome] * len(given)

    await spans.tracing.middleware(bench.bus)(list(jobs), work)


async def test_a_lone_job_continues_its_producers_trace_through_a_real_worker(bench: Bench) -> None:
    spans, done = Spans(), asyncio.Event()
    await spans.tracing.admit_many(bench.bus, bench.queue, [bench.job()])

    async def handle(job: Job) -> None:
        done.set()

    worker = Worker(
        bench.bus,
        bench.queue,
        handle,
        options=WorkerOptions(concurrency=1),
        middleware=[spans.tracing.middleware(bench.bus)],
    )
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(worker.run())
        await asyncio.wait_for(done.wait(), 5)
        worker.stop()
    (sent,), (worked,) = spans.of(SpanKind.PRODUCER), spans.of(SpanKind.CONSUMER)
    assert worked.parent is not None
    assert worked.parent.span_id == sent.context.span_id
    assert worked.context.trace_id == sent.context.trace_id
    assert [link.context.span_id for link in worked.links] == [sent.context.span_id]
    assert worked.attributes is not None
    assert worked.attributes["messaging.destination.name"] == bench.queue


async def test_a_batch_is_linked_to_every_producer(bench: Bench) -> None:
    spans = Spans()
    for _ in range(2):
        await spans.tracing.admit_many(bench.bus, bench.queue, [bench.job()])
    await bench.fill([None])
    await middle(spans, bench, await bench.take(3))
    (worked,) = spans.of(SpanKind.CONSUMER)
    assert worked.parent is None
    senders = {span.context.span_id for span in spans.of(SpanKind.PRODUCER)}
    assert {link.context.span_id for link in worked.links} == senders
    assert worked.attributes is not None
    assert worked.attributes["messaging.batch.message_count"] == 3


async def test_an_untraced_job_has_no_field_and_still_gets_a_span(bench: Bench) -> None:
    spans = Spans()
    (job_id,) = await bench.fill([None])
    assert set(await bench.row(job_id)) == {"state", "attempts", "payload"}
    await middle(spans, bench, await bench.take())
    (worked,) = spans.of(SpanKind.CONSUMER)
    assert (worked.parent, list(worked.links)) == (None, [])


async def test_the_context_travels_in_the_row_and_survives_a_retry(bench: Bench) -> None:
    await bench.put(bench.job(trace=CONTEXT))
    (job,) = await bench.take()
    assert (await bench.row(job.id))["trace"] == CONTEXT
    await bench.settle(job, Retry("again", 1))
    await bench.due(job.id)
    spans = Spans()
    await middle(spans, bench, await bench.take())
    assert f"{spans.of(SpanKind.CONSUMER)[0].context.trace_id:032x}" == CONTEXT[3:35]


@pytest.mark.parametrize("broken", ["00-zz", "x", "00-" + "0" * 32 + "-" + "0" * 16 + "-01"])
async def test_a_broken_context_costs_the_link_and_nothing_else(bench: Bench, broken: str) -> None:
    await bench.put(bench.job(trace=broken))
    spans = Spans()
    await middle(spans, bench, await bench.take())
    assert spans.of(SpanKind.CONSUMER)[0].parent is None


async def test_a_failure_marks_the_span(bench: Bench) -> None:
    await bench.fill([None])
    spans = Spans()
    await middle(spans, bench, await bench.take(), Retry("no luck"))
    status = spans.of(SpanKind.CONSUMER)[0].status
    assert (status.status_code, status.description) == (StatusCode.ERROR, "no luck")


@pytest.mark.parametrize("fault", ["an unreadable row", "no answer"])
async def test_a_context_that_cannot_be_read_costs_the_links_and_not_the_job(bench: Bench, fault: str) -> None:
    await bench.put(bench.job(trace=CONTEXT))
    (job,) = await bench.take()
    bus, spans = FaultyConnector(bench.bus, seed=1, refuse=0, lose=0), Spans()
    if fault == "no answer":
        bus.refuse = 1
    else:
        await bench.raw("DEL", f"job:{job.id}")
        await bench.raw("SET", f"job:{job.id}", "no hash")

    async def work(given: list[Job]) -> Sequence[Outcome | None]:
        return [None] * len(given)

    assert await spans.tracing.middleware(bus)([job], work) == [None]
    (worked,) = spans.of(SpanKind.CONSUMER)
    assert (worked.parent, list(worked.links)) == (None, [])


@pytest.mark.parametrize("trace", ["", "x" * 129, "ä"])
def test_a_trace_that_no_row_may_hold_is_refused(trace: str) -> None:
    with pytest.raises(InvalidValue, match="trace"):
        NewJob("JOB00000000001", b"", trace=trace)


def test_without_the_library_one_sentence_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    with pytest.raises(InvalidValue, match="opentelemetry-api"):
        Tracing()
