"""A job's end reaches its parent, once per child: in the same queue at once, elsewhere through the outbox.

`add` and `deliver` need several calls to the server: they are generators that yield before each of them, so that a
story can let anything happen in between.
"""

from __future__ import annotations

from collections.abc import Generator

from codemojex.engine.flows.flows import Flow
from codemojex.engine.flows.outbox import Delivered
from tests.engine.model.plain.admission import Link, admit
from tests.engine.model.plain.state import Queue, Row, World

Calls = Generator[None, None, object]
SEPARATOR = "\0"


def link_of(row: Row) -> Link | None:
    policy = "id" if row.get("parent_policy") == "id" else "fp"
    return Link(row["parent"], row.get("parent_queue"), policy) if "parent" in row else None


def bury(q: Queue, job_id: str, reason: str) -> None:
    """The job is a dead letter; its parent hears of it by `failed`."""
    q.rows[job_id] |= {"state": "dead", "last_error": reason}
    for name in ("cancel", "expires_at", "lapsed"):
        q.rows[job_id].pop(name, None)
    q.dead.add(job_id)
    q.totals["failed"] += 1


def die(q: Queue, job_id: str, reason: str) -> None:
    bury(q, job_id, reason)
    failed(q, job_id, reason)


def done(q: Queue, job_id: str, link: Link, result: str) -> None:
    if link.queue is None:
        done_here(q, job_id, link.parent, result)
    else:
        q.outbox.append(SEPARATOR.join((link.queue, link.parent, job_id, result)))


def failed(q: Queue, job_id: str, error: str) -> None:
    if link := link_of(q.rows[job_id]):
        failed_as(q, job_id, link, error)


def failed_as(q: Queue, job_id: str, link: Link, error: str) -> None:
    if link.queue is None:
        failed_here(q, job_id, link.parent, link.policy, error)
    else:
        q.outbox.append(SEPARATOR.join(("", "fail", link.queue, link.parent, job_id, link.policy, error)))


def _counting(q: Queue, parent_id: str) -> Row | None:
    parent = q.rows.get(parent_id)
    return parent if parent is not None and parent.left is not None else None


def _count(q: Queue, parent_id: str, parent: Row) -> None:
    assert parent.left is not None
    parent.left -= 1
    if parent.left <= 0 and parent.state == "awaiting_children":
        del q.parents[parent_id]
        q.put(parent_id)


def done_here(q: Queue, child: str, parent_id: str, result: str) -> None:
    parent = _counting(q, parent_id)
    if parent is None or child in parent.processed:
        return
    parent.processed[child] = result
    parent.failed.pop(child, None)
    if parent.ignored.pop(child, None) is None:  # an ignored failure was counted when it happened
        _count(q, parent_id, parent)


def failed_here(q: Queue, child: str, parent_id: str, policy: str, error: str) -> None:
    parent = _counting(q, parent_id)
    if parent is None or child in parent.processed:
        return
    record = parent.ignored if policy == "id" else parent.failed
    if child in record:
        return
    record[child] = error
    if policy == "id":
        _count(q, parent_id, parent)
    elif parent.state == "awaiting_children":
        del q.parents[parent_id]
        bury(q, parent_id, f"child {child} failed: {error}")
        failed(q, parent_id, error)


# the outbox


def deliver(q: Queue, limit: int) -> Calls:
    yield
    first, entries = q.sent, q.outbox[:limit]
    at = 0
    while at < len(entries):
        run = [_parts(entries[at])]
        while at + len(run) < len(entries) and _parts(entries[at + len(run)])[0] == run[0][0]:
            run.append(_parts(entries[at + len(run)]))
        yield
        for queue, parent, child, policy, text in run:
            if policy is None:
                done_here(q.world.queues[queue], child, parent, text)
            else:
                failed_here(q.world.queues[queue], child, parent, policy, text)
        at += len(run)
    if not entries:
        return Delivered()
    yield
    taken = 0
    for entry in entries[max(0, q.sent - first) :] if q.sent >= first else ():
        if q.outbox[:1] != [entry]:
            break
        del q.outbox[0]
        taken += 1
    q.sent += taken
    return Delivered(taken, 0, len(entries) == limit)


def _parts(entry: str) -> tuple[str, str, str, str | None, str]:
    if entry.startswith(SEPARATOR):
        _, _, queue, parent, child, policy, error = entry.split(SEPARATOR, 6)
        return queue, parent, child, policy, error
    queue, parent, child, result = entry.split(SEPARATOR, 3)
    return queue, parent, child, None, result


# adding

Job = tuple[Flow, Link | None]


class Part:
    """The jobs of a flow that hang together in one queue, parents first, and the parts that hang on them."""

    def __init__(self, queue: str, above: str, parent: str) -> None:
        self.queue, self.above, self.parent = queue, above, parent
        self.jobs: list[Job] = []
        self.parts: list[Part] = []

    def walk(self, flow: Flow, link: Link | None) -> Part:
        self.jobs.append((flow, link))
        for child in flow.children:
            queue = child.queue or self.queue
            policy = "id" if child.ignore_failure else "fp"
            if queue == self.queue:
                self.walk(child, Link(flow.job.id, None, policy))
            else:
                below = Part(queue, self.queue, flow.job.id)
                self.parts.append(below.walk(child, Link(flow.job.id, self.queue, policy)))
        return self


def add(world: World, client: int, queue: str, flow: Flow) -> Calls:
    """`added`, or what stands in its way and the id that does; a part that meets another job is `broken`."""
    part = Part(flow.queue or queue, "", "").walk(flow, None)
    code, holder, life = yield from _send(world, client, part)
    if code != "added" and (code != "duplicate" or holder != flow.job.id):
        return ("duplicate" if code == "duplicate" else "conflict"), holder
    added = code == "added"
    for below in part.parts:
        more = yield from _below(world, client, below, life)
        if more == "taken":
            return "broken", ""
        added = added or more == "added"
    return ("added" if added else "duplicate"), flow.job.id


def _below(world: World, client: int, part: Part, life: str) -> Generator[None, None, str]:
    """A part is added when nothing is known of it; nobody asks when this call has just added its parent (`life`)."""
    first = part.jobs[0][0].job.id
    code, born = "absent", ""
    if not life:
        code, _, _ = yield from _send(world, client, part, look=True)
        if code == "absent":
            yield
            parent = world.queues[part.above].rows.get(part.parent)
            if parent is None or parent.state != "awaiting_children":
                return "no"
            if first in parent.processed or first in parent.failed or first in parent.ignored:
                return "no"
            life = parent.get("flow", "0")
    if code == "absent":
        code, _, born = yield from _send(world, client, part, life=life)
    if code == "taken":
        return "taken"
    added = code == "added"
    for below in part.parts if code != "settled" else ():
        more = yield from _below(world, client, below, born)
        if more == "taken":
            return "taken"
        added = added or more == "added"
    return "added" if added else "no"


def _send(
    world: World, client: int, part: Part, look: bool = False, life: str = ""
) -> Generator[None, None, tuple[str, str, str]]:
    yield
    answer = _add(world.queues[part.queue], part, look, world.real.get(life) or life)
    if answer[0] == "added" and (client, part.queue) not in world.known:
        world.known.add((client, part.queue))
        yield
        world.listed.add(part.queue)
    return answer


def _add(q: Queue, part: Part, look: bool, life: str) -> tuple[str, str, str]:
    """The part of a flow in one queue, whole or not at all; `life` of the parent that it hangs on."""
    flow, link = part.jobs[0]
    job = flow.job
    if held := q.rows.get(job.id):
        if link and held.get("parent") != link.parent:
            return "taken", job.id, ""
        return ("duplicate" if held["payload"] == job.payload.decode() else "conflict"), job.id, ""
    if look:
        waits = any(_parts(e)[:3] == (part.above, part.parent, job.id) for e in q.outbox)
        return ("settled" if waits else "absent"), job.id, ""
    if life and int(q.parts.get(job.id, -1)) >= int(life):
        return "settled", job.id, ""
    for below, _ in part.jobs[1:]:
        if below.job.id in q.rows:
            return "taken", below.job.id, ""
    born = q.world.life()
    for below, its_link in part.jobs:
        elsewhere = any((child.queue or part.queue) != part.queue for child in below.children)
        code, holder = admit(q, below.job, its_link, len(below.children), born if elsewhere else None)
        if code == "duplicate":
            return code, holder, ""
    if life:
        q.parts[job.id] = life
        q.live(f"job:{job.id}:part", 3_600_000)
    return "added", job.id, born
