"""Jobs enter the queue here, once each.

A job is admitted by one script: kind, then existence, then the producer's idempotency key, then the write. The
answer is a value (`Verdict`): a repeat is not a fault. Batches are cut into bounded chunks that travel in one round
trip; a bad job never spoils the others. Single admissions of one event-loop tick share a batch (see `admission`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal

import msgspec

from codemojex.engine import ids, keyspace, validation
from codemojex.engine.backoff import Backoff, Exponential, Fixed
from codemojex.engine.errors import EngineError, InvalidValue, Unavailable, WrongKind
from codemojex.engine.jobs import registry
from codemojex.engine.jobs.tick_batcher import batcher_of
from codemojex.engine.scripts import ENGINE
from codemojex.engine.transport.connector import Arg, Connector

MAX_PAYLOAD = 64 * 1024
MAX_TRACE = 128
CHUNK_JOBS = 500
CHUNK_BYTES = 1024 * 1024
MAX_WAIT_MS = 366 * 24 * 3600 * 1000
MAX_LAST_MS = 4_102_444_800_000  # the year 2100: a due time beyond it is a mistake in units

_KIND = "EMQKIND job id must be JOB-namespaced"


@dataclass(frozen=True, slots=True)
class Dedup:
    """A producer's idempotency key.

    `release="window"`: the key lives `window_ms` from admission and again from the job's end, so choose a window
    longer than the job may wait. `release="claim"`: the key is freed when the job is claimed (at most one waits);
    `window_ms` then only bounds its life.
    """

    key: str
    window_ms: int
    release: Literal["window", "claim"] = "window"

    def __post_init__(self) -> None:
        keyspace.dedup_key(self.key)
        validation.integer("window_ms", self.window_ms, 1, MAX_WAIT_MS)
        validation.choice("release", self.release, "window", "claim")


@dataclass(frozen=True, slots=True)
class NewJob:
    """A job to admit.

    `lane` is a branded id of any namespace, None means flat. `delay_ms` counts from the server's now, `run_at_ms` is
    Unix time; both unset means at once. What is None here is decided by the worker that settles the job. `trace` is the
    context of the producer's span, see `tracing`.
    """

    id: str
    payload: bytes
    lane: str | None = None
    delay_ms: int = 0
    run_at_ms: int | None = None
    max_attempts: int | None = None
    backoff: Backoff | None = None
    timeout_ms: int | None = None
    expires_at_ms: int | None = None
    dedup: Dedup | None = None
    trace: str | None = None

    def __post_init__(self) -> None:
        ids.require(self.id)
        if self.lane is not None:
            ids.require(self.lane)
        validation.data(f"the payload of {self.id}", self.payload, MAX_PAYLOAD)
        validation.integer("delay_ms", self.delay_ms, 0, MAX_WAIT_MS)
        if self.run_at_ms is not None:
            validation.integer("run_at_ms", self.run_at_ms, 0, MAX_LAST_MS)
        if self.max_attempts is not None:
            validation.integer("max_attempts", self.max_attempts, 1, validation.MAX_ATTEMPTS)
        if self.backoff is not None:
            validation.one_of("backoff", self.backoff, Fixed, Exponential)
        if self.timeout_ms is not None:
            validation.integer("timeout_ms", self.timeout_ms, 1, MAX_WAIT_MS)
        if self.expires_at_ms is not None:
            validation.integer("expires_at_ms", self.expires_at_ms, 0, MAX_LAST_MS)
        if self.dedup is not None:
            validation.one_of("dedup", self.dedup, Dedup)
        if self.trace is not None and not validation.text("trace", self.trace, 1, MAX_TRACE).isascii():
            raise InvalidValue(f"trace of {self.id} is not valid: use 1 to {MAX_TRACE} ASCII characters")


@dataclass(frozen=True, slots=True)
class Enqueued:
    """The job waits to be claimed under `id`, which does not count when verdicts are compared."""

    id: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class Scheduled:
    """The job waits for its time under `id`, which does not count when verdicts are compared."""

    id: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class Duplicate:
    """Nothing changed: `of` already holds the id or the idempotency key. `conflict`: same id, but another payload."""

    of: str
    conflict: bool = False


@dataclass(frozen=True, slots=True)
class AdmissionRefused:
    """Nothing was written, and why."""

    reason: str


Verdict = Enqueued | Scheduled | Duplicate | AdmissionRefused


@dataclass(frozen=True, slots=True)
class Job:
    """A claimed job as its handler sees it. `token` fences whatever the handler writes elsewhere."""

    id: str
    payload: bytes
    token: str
    lane: str | None
    failures: int
    stalled: int
    queue: str
    lease_until_ms: int
    timeout_ms: int | None = None


async def admit_many(bus: Connector, queue: str, jobs: Iterable[NewJob]) -> list[Verdict]:
    """Admit jobs, one verdict each in input order. Each job is atomic, the batch is not."""
    verdicts = await attempt_many(bus, queue, jobs)
    return [AdmissionRefused(str(v)) if isinstance(v, EngineError) else v for v in verdicts]


async def attempt_many(bus: Connector, queue: str, jobs: Iterable[NewJob]) -> list[Verdict | EngineError]:
    """`admit_many`, but what the server refused (wrong kind, memory full) stands in the list as an exception.

    Raises Unavailable when it took nothing at all.
    """
    prefix = keyspace.of(queue).prefix
    script = ENGINE.script("admit_many")
    chunks = _chunks(validation.many("jobs", jobs, NewJob))
    replies = await bus.run_many(script, [((prefix,), _arguments(chunk)) for chunk in chunks])
    verdicts: list[Verdict | EngineError] = []
    if replies and all(isinstance(reply, Unavailable) for reply in replies):
        raise replies[0]
    for chunk, reply in zip(chunks, replies, strict=True):
        if isinstance(reply, EngineError):
            verdicts += [reply] * len(chunk)
        else:
            verdicts += [_verdict(job.id, reply[2 * i], reply[2 * i + 1]) for i, job in enumerate(chunk)]
    await registry.note(bus, queue)
    return verdicts


async def admit(bus: Connector, queue: str, job: NewJob) -> Verdict:
    """Admit one job; calls of the same event-loop tick share a round trip. Raises WrongKind for a non-JOB id."""
    keyspace.of(queue)
    validation.one_of("job", job, NewJob)  # here, where it spoils no other of the same tick
    return await batcher_of(bus, queue, attempt_many).admit(bus, job)


async def enqueue(bus: Connector, queue: str, job_id: str, payload: bytes) -> Verdict:
    """Admit a flat job at once."""
    return await admit(bus, queue, NewJob(job_id, payload))


async def enqueue_many(bus: Connector, queue: str, jobs: Iterable[tuple[str, bytes]]) -> list[Verdict]:
    """Admit flat jobs at once: pairs of id and payload."""
    return await admit_many(bus, queue, [NewJob(job_id, payload) for job_id, payload in validation.pairs("jobs", jobs)])


async def enqueue_in(bus: Connector, queue: str, job_id: str, payload: bytes, delay_ms: int) -> Verdict:
    """Admit a flat job that becomes due `delay_ms` from the server's now."""
    validation.integer("delay_ms", delay_ms, 0, MAX_WAIT_MS)
    return await admit(bus, queue, NewJob(job_id, payload, delay_ms=max(delay_ms, 1)))


async def enqueue_at(bus: Connector, queue: str, job_id: str, payload: bytes, run_at_ms: int) -> Verdict:
    """Admit a flat job that becomes due at a Unix time."""
    validation.integer("run_at_ms", run_at_ms, 0, MAX_LAST_MS)
    return await admit(bus, queue, NewJob(job_id, payload, run_at_ms=run_at_ms))


def _chunks(jobs: Sequence[NewJob]) -> list[Sequence[NewJob]]:
    chunks: list[Sequence[NewJob]] = []
    start = size = 0
    for i, job in enumerate(jobs):
        if i > start and (i - start >= CHUNK_JOBS or size + len(job.payload) > CHUNK_BYTES):
            chunks.append(jobs[start:i])
            start, size = i, 0
        size += len(job.payload)
    if start < len(jobs):
        chunks.append(jobs[start:])
    return chunks


def _arguments(jobs: Sequence[NewJob]) -> list[Arg]:
    arguments: list[Arg] = [msgspec.msgpack.encode([spec_of(job) for job in jobs])]
    arguments += [job.payload for job in jobs]
    return arguments


def spec_of(job: NewJob) -> dict[str, str | int]:
    """The map that the fragment `admit_one` reads, without the payload."""
    spec: dict[str, str | int] = {"id": job.id}
    if job.lane is not None:
        spec["lane"] = job.lane
    if job.run_at_ms is not None:
        spec["due"] = job.run_at_ms
    elif job.delay_ms:
        spec["delay"] = job.delay_ms
    if job.max_attempts is not None:
        spec["max_attempts"] = job.max_attempts
    if job.backoff is not None:
        spec["backoff"] = job.backoff.wire
    if job.timeout_ms is not None:
        spec["timeout"] = job.timeout_ms
    if job.expires_at_ms is not None:
        spec["expires"] = job.expires_at_ms
    if job.dedup is not None:
        spec |= {"dedup": job.dedup.key, "window": job.dedup.window_ms, "release": job.dedup.release}
    if job.trace is not None:
        spec["trace"] = job.trace
    return spec


def _verdict(job_id: str, code: bytes, holder: bytes) -> Verdict | EngineError:
    if code == b"enqueued":
        return Enqueued(job_id)
    if code == b"scheduled":
        return Scheduled(job_id)
    if code == b"kind":
        return WrongKind(_KIND)
    return Duplicate(holder.decode(), conflict=code == b"conflict")
