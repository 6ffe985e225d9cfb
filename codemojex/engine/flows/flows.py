"""Jobs that wait for other jobs: trees of parents and children, in one queue or over several.

A parent is held until every child has ended; each child counts once, by its id. What lies in one queue is added by one
script, parents first, and the same flow again changes nothing but adds what a broken call left out. A child's end
reaches a parent in its own queue at once, one elsewhere through the outbox of the child's queue, which `deliver`
empties. A flow does not say when parents run: that is the queue's business.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from codemojex.engine import keyspace, validation
from codemojex.engine.errors import FlowCycle, FlowTooDeep, InvalidInput, InvalidValue, ServerError, WrongState
from codemojex.engine.flows.outbox import Delivered, deliver
from codemojex.engine.jobs import registry
from codemojex.engine.jobs.jobs import AdmissionRefused, Duplicate, NewJob, spec_of
from codemojex.engine.scripts import ENGINE
from codemojex.engine.transport.connector import Arg, Connector

__all__ = [
    "Added",
    "Delivered",
    "Flow",
    "add",
    "add_bulk",
    "children_values",
    "deliver",
    "dependencies",
    "failures",
    "ignored_failures",
]

_UNKNOWN_LIFE = "0"  # of a parent that another engine added
MAX_DEPTH = 8
MAX_JOBS = 1_000
MAX_BYTES = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Flow:
    """A job and the flows that must end before it starts.

    `queue`: where the job lies, None for its parent's queue (for the first one: the queue of the call).
    `ignore_failure`: a child that dies counts as ended and the parent runs; else the parent dies with it.
    """

    job: NewJob
    children: Sequence[Flow] = ()
    queue: str | None = None
    ignore_failure: bool = False

    def __post_init__(self) -> None:
        validation.one_of("job", self.job, NewJob)
        validation.many("children", self.children, Flow)
        if self.queue is not None:
            keyspace.of(self.queue)
        validation.flag("ignore_failure", self.ignore_failure)


@dataclass(frozen=True, slots=True)
class Added:
    """The flow is in: the ids of its jobs in the shape of the tree."""

    id: str
    children: Sequence[Added] = ()


@dataclass(slots=True)
class _Part:
    """The jobs of a flow that hang together in one queue, parents first, and the parts that hang on them."""

    queue: str
    parent: tuple[str, str] | None  # queue and id of the job that the first one here is a child of
    specs: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])  # a message of mixed values
    payloads: list[bytes] = field(default_factory=list[bytes])
    parts: list[_Part] = field(default_factory=list["_Part"])


async def add(bus: Connector, queue: str, flow: Flow) -> Added | Duplicate:
    """Add a flow. Raises FlowTooDeep, FlowCycle and InvalidValue before anything is sent, WrongKind for a non-JOB id.

    `Duplicate` names the job that holds the first id, its idempotency key, or (with `conflict`) any other id of its
    queue; nothing was written. A flow over several queues is written part by part: when one is refused, or the call
    breaks off, its parent stays held, and adding the flow again completes it. Raises WrongState when a part needs an
    id that another job has.
    """
    keyspace.of(queue)
    validation.one_of("flow", flow, Flow)
    part = _plan(queue, flow)
    code, job_id, life = await _send(bus, part)
    added = code == "added"
    if not added and (code != "duplicate" or job_id != flow.job.id):
        return Duplicate(job_id, conflict=code != "duplicate")
    for below in part.parts:
        added = await _add_below(bus, below, life) or added
    return _ids(flow) if added else Duplicate(job_id)


async def add_bulk(bus: Connector, queue: str, flows: Iterable[Flow]) -> list[Added | Duplicate | AdmissionRefused]:
    """Add many flows, one verdict each in input order: a flow that is refused spoils no other."""
    keyspace.of(queue)
    verdicts: list[Added | Duplicate | AdmissionRefused] = []
    for flow in validation.many("flows", flows, Flow):
        try:
            verdicts.append(await add(bus, queue, flow))
        except (InvalidInput, ServerError) as error:
            verdicts.append(AdmissionRefused(str(error)))
    return verdicts


async def children_values(bus: Connector, queue: str, parent_id: str) -> Mapping[str, bytes]:
    """What the parent's completed children gave it: id to result (the id itself where none was given)."""
    return await _record(bus, queue, parent_id, "processed")


async def ignored_failures(bus: Connector, queue: str, parent_id: str) -> Mapping[str, str]:
    """The children whose death did not stop the parent: id to error."""
    record = await _record(bus, queue, parent_id, "unsuccessful")
    return {child: error.decode(errors="replace") for child, error in record.items()}


async def failures(bus: Connector, queue: str, parent_id: str) -> Mapping[str, str]:
    """The children whose death was the parent's: id to error."""
    record = await _record(bus, queue, parent_id, "failed")
    return {child: error.decode(errors="replace") for child, error in record.items()}


async def dependencies(bus: Connector, queue: str, parent_id: str) -> int:
    """How many children the parent still waits for; 0 for a job without."""
    return int(await bus.execute("GET", keyspace.of(queue).part(parent_id, "dependencies")) or 0)


def _plan(queue: str, flow: Flow) -> _Part:
    """The parts of a flow, first the one with its first job; raises for what no flow can be."""
    seen: set[str] = set()
    first = _Part(flow.queue or queue, None)
    _walk(flow, first, None, 1, seen)
    size = _size(first)
    if size > MAX_BYTES:
        raise InvalidValue(f"the flow's payloads have {size} bytes, the limit is {MAX_BYTES}: pass keys to large data")
    return first


def _walk(flow: Flow, part: _Part, parent: tuple[str, str] | None, depth: int, seen: set[str]) -> None:
    job = flow.job
    if depth > MAX_DEPTH:
        raise FlowTooDeep(MAX_DEPTH)
    if job.id in seen:
        raise FlowCycle(job.id)
    seen.add(job.id)
    if len(seen) > MAX_JOBS:
        raise InvalidValue(f"the flow has more than {MAX_JOBS} jobs: let a job add a flow of its own")
    keyspace.of(part.queue)
    if flow.children and (job.delay_ms or job.run_at_ms is not None):
        raise InvalidValue(f"{job.id} waits for its children and cannot wait for a time as well: delay the children")
    if parent is not None and job.dedup is not None:
        raise InvalidValue(f"{job.id} is a child and takes no idempotency key: give it to the flow's first job")
    spec: dict[str, Any] = {**spec_of(job)}
    if parent is not None:
        spec |= {"parent": parent[1], "policy": "id" if flow.ignore_failure else "fp"}
        if parent[0] != part.queue:
            spec["parent_queue"] = parent[0]
    if flow.children:
        spec["children"] = len(flow.children)
    part.specs.append(spec)
    part.payloads.append(job.payload)
    here = (part.queue, job.id)
    for child in flow.children:
        below = part
        if (child.queue or part.queue) != part.queue:
            below = _Part(child.queue or part.queue, here)
            part.parts.append(below)
            spec["flow"] = True
        _walk(child, below, here, depth + 1, seen)


def _size(part: _Part) -> int:
    return sum(len(payload) for payload in part.payloads) + sum(_size(below) for below in part.parts)


async def _add_below(bus: Connector, part: _Part, life: str) -> bool:
    """Add a part whose parent is held, and the parts below it; whether anything was written.

    `life`: of the parent, when this call has just added it. Otherwise the part may have been added before, and ended:
    it is added only when its row is gone, its end does not wait in the outbox, and the parent, asked after both, has
    heard nothing of it and says which life it is in. Of several calls that come so far, one adds the part.
    """
    assert part.parent is not None
    code, found, born = "absent", str(part.specs[0]["id"]), ""
    if not life:
        code, found, _ = await _send(bus, part, look=True)
    if code == "absent" and not life:
        prefix = keyspace.of(part.parent[0]).prefix
        life = (await bus.run(ENGINE.script("flow_missing"), (prefix,), (part.parent[1], found))).decode()
        if not life:
            return False
    if code == "absent":
        code, found, born = await _send(bus, part, life="" if life == _UNKNOWN_LIFE else life)
    if code == "taken":
        raise WrongState(
            f"EMQSTATE {found} is another job of queue {part.queue!r}: {part.parent[1]} stays held; "
            "remove one of the two and add the flow again"
        )
    added = code == "added"
    if code != "settled":
        for below in part.parts:
            added = await _add_below(bus, below, born) or added
    return added


async def _send(bus: Connector, part: _Part, *, look: bool = False, life: str = "") -> tuple[str, str, str]:
    args: list[Arg] = [msgspec.msgpack.encode(part.specs), int(look), life, *part.payloads]
    code, job_id, *born = await bus.run(ENGINE.script("flow_add"), (keyspace.of(part.queue).prefix,), args)
    if code == b"added":
        await registry.note(bus, part.queue)
    return code.decode(), job_id.decode(), born[0].decode() if born else ""


def _ids(flow: Flow) -> Added:
    return Added(flow.job.id, [_ids(child) for child in flow.children])


async def _record(bus: Connector, queue: str, parent_id: str, name: str) -> Mapping[str, bytes]:
    record = await bus.execute("HGETALL", keyspace.of(queue).part(parent_id, name))
    return {child.decode(): value for child, value in record.items()}
