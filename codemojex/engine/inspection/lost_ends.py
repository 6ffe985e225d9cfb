"""Finds parents that wait for children whose end stands nowhere, and tells them.

A child's end is in its parent's records, or an entry of an outbox. Two makes of pump on one outbox can lose an entry:
the parent then waits for ever. Children stand in any queue, so this looks at every row and outbox of the deployment:
it is a part of the audit. A parent is judged only by what held before and after that look, twice in a row.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field

from codemojex.engine import ids, keyspace
from codemojex.engine.flows import outbox
from codemojex.engine.keyspace import Keyspace
from codemojex.engine.scripts import ENGINE
from codemojex.engine.transport.connector import Arg, Connector

SETTLED_MS = 60_000  # a flow over several queues is added part by part: a younger parent is not judged
_PORTION = 500
_PROBES = 64  # so many tags reach every primary of a cluster of ordinary size


@dataclass(frozen=True, slots=True)
class Dead:
    """A child that is a dead letter, and how its parent must be told."""

    child: str
    policy: str
    error: bytes


@dataclass(slots=True)
class Parent:
    """A parent that waits: for how many children, of which it has heard, and what was found of the others."""

    id: str
    left: int
    heard: frozenset[str]
    living: set[str] = field(default_factory=set[str])
    on_the_way: set[str] = field(default_factory=set[str])
    dead: dict[str, Dead] = field(default_factory=dict[str, Dead])

    @property
    def unheard_dead(self) -> list[Dead]:
        """Dead letters that the parent has not heard of, and whose end is not on its way."""
        return [dead for name, dead in sorted(self.dead.items()) if name not in self.heard | self.on_the_way]

    @property
    def nowhere(self) -> int:
        """How many children it waits for in vain: no row, no entry."""
        found = (self.living | self.on_the_way | self.dead.keys()) - self.heard
        return max(0, self.left - len(found))

    @property
    def seen(self) -> tuple[int, frozenset[str], int, tuple[str, ...]]:
        """What must be the same in two looks."""
        return self.left, self.heard, self.nowhere, tuple(dead.child for dead in self.unheard_dead)


async def find(bus: Connector, space: Keyspace, job_ids: Sequence[str], *, repair: bool) -> list[tuple[str, str]]:
    """Pairs of a parent among `job_ids` and what it lost. With `repair` it hears of dead children; one with children
    that left no trace becomes a dead letter, because nobody knows what they ended with.
    """
    queue = space.queue
    first = await _look(bus, queue, job_ids)
    if not first:
        return []
    again = await _look(bus, queue, list(first))
    found: list[tuple[str, str]] = []
    for parent in again.values():
        if parent.seen != first[parent.id].seen:
            continue
        for dead in parent.unheard_dead:
            found.append((parent.id, f"row: its child {dead.child} is a dead letter, and it has not heard of it"))
        if parent.nowhere:
            what = (
                f"waits for {parent.left} children, {parent.nowhere} of them stand nowhere: no row, no end on its way"
            )
            found.append((parent.id, f"row: {what}"))
        if repair:
            await _repair(bus, queue, parent)
    return found


async def _look(bus: Connector, queue: str, job_ids: Sequence[str]) -> dict[str, Parent]:
    """The parents that lost something, by their id."""
    before = await _waiting(bus, queue, job_ids)
    if not before:
        return {}
    await _search(bus, queue, before)
    after = await _waiting(bus, queue, list(before))
    return {
        name: parent
        for name, parent in before.items()
        if (parent.nowhere or parent.unheard_dead)
        and name in after
        and (after[name].left, after[name].heard) == (parent.left, parent.heard)
    }


async def _waiting(bus: Connector, queue: str, job_ids: Sequence[str]) -> dict[str, Parent]:
    found: dict[str, Parent] = {}
    for start in range(0, len(job_ids), _PORTION):
        portion = job_ids[start : start + _PORTION]
        now_ms, *rows = await bus.run(ENGINE.script("flow_waiting"), (keyspace.of(queue).prefix,), portion)
        for name, since, left, heard in zip(*(rows[i::4] for i in range(4)), strict=True):
            job_id = name.decode()
            since_ms = float(since) if since else ids.parse(job_id).unix_ms
            if since_ms <= now_ms - SETTLED_MS:
                found[job_id] = Parent(job_id, left, frozenset(child.decode() for child in heard))
    return found


async def _search(bus: Connector, queue: str, parents: dict[str, Parent]) -> None:
    """Note the children of `parents` that stand somewhere: first every row, then every outbox."""
    queues = {queue}
    rows: list[tuple[str, str]] = []
    async for name, rest in _keys(bus):
        queues.add(name)
        if rest.startswith("job:") and ids.is_valid(rest[4:]):
            rows.append((name, rest[4:]))
        if len(rows) >= _PORTION:
            await _children(bus, queue, parents, rows)
            rows.clear()
    await _children(bus, queue, parents, rows)
    for name in sorted(queues):
        for entry in await bus.execute("LRANGE", keyspace.of(name).key("flow:outbox"), 0, -1):
            signal = outbox.parse(entry)
            if signal is not None and signal.queue == queue and signal.parent in parents:
                parents[signal.parent].on_the_way.add(signal.child)


async def _children(bus: Connector, queue: str, parents: dict[str, Parent], rows: Sequence[tuple[str, str]]) -> None:
    fields = ("parent", "parent_queue", "parent_policy", "state", "last_error")
    calls: list[tuple[Arg, ...]] = [("HMGET", keyspace.of(name).row(job_id), *fields) for name, job_id in rows]
    for (name, job_id), values in zip(rows, await bus.all(calls), strict=True):
        above, above_queue, policy, state, error = values
        parent = parents.get(above.decode(errors="replace")) if above else None
        if parent is None or (above_queue.decode(errors="replace") if above_queue else name) != queue:
            continue
        if state == b"dead":
            parent.dead[job_id] = Dead(job_id, "id" if policy == b"id" else "fp", error or b"dead")
        elif state:
            parent.living.add(job_id)


async def _keys(bus: Connector) -> AsyncIterator[tuple[str, str]]:
    """Queue and rest of every key of a row or an outbox, on every server."""
    servers: set[bytes] = set()
    for number in range(_PROBES):
        at = keyspace.of(f"probe-{number}").prefix
        server = await bus.identity(at)
        if server in servers:
            continue
        servers.add(server)
        cursor: Arg = b"0"
        while True:
            cursor, keys = await bus.at(at, "SCAN", cursor, "MATCH", keyspace.ANY_QUEUE, "COUNT", 1000)
            for key in keys:
                if (place := keyspace.place_of(key.decode(errors="replace"))) is not None:
                    yield place
            if cursor == b"0":
                break


async def _repair(bus: Connector, queue: str, parent: Parent) -> None:
    prefix = keyspace.of(queue).prefix
    told: list[Arg] = []
    for dead in parent.unheard_dead:
        told += ["fail", parent.id, dead.child, dead.policy, dead.error]
    if told:
        await bus.run(ENGINE.script("flow_deliver"), (prefix,), told)
    if parent.nowhere:
        ignored = sum(dead.policy == "id" for dead in parent.unheard_dead)
        heard = len(parent.heard) + len(parent.unheard_dead)
        error = f"the ends of {parent.nowhere} children were lost: reprocess it to run without them"
        await bus.run(ENGINE.script("flow_lost"), (prefix,), (parent.id, parent.left - ignored, heard, error))
