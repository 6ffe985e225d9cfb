"""P: another engine of the protocol, which writes what its pages say (sections 3 to 5) and nothing more.

Each verb is one script of P's own, or the client's reads and then a script, as the protocol tells it; none shares a
line with ours. `Habits` are P's weak spots, each with a switch: one that is off is done as a careful engine does it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from codemojex.engine import keyspace
from codemojex.engine.ids import Minter
from codemojex.engine.transport.connector import Connector
from tests.support.peer_scripts import script

NODE = 68  # what an unconfigured P mints under
_NUL = b"\0"
_MINT = Minter(NODE)


@dataclass(frozen=True, slots=True)
class Habits:
    """What P does that its neighbours must survive. The number is the item of issue 6, section B."""

    trims_blindly: bool = True  # 1: reads n entries of the outbox, delivers, and cuts n later without looking
    forgets_strange_repeats: bool = True  # 2: a record without `every_ms` counts as deleted and is removed
    stall_leaves_ring: bool = True  # 3: a holder buried at its ceiling does not bring its lane back
    reprocesses_flat: bool = True  # 8: a lane's dead letter goes to the flat backlog, with its `group`
    delay_keeps_seat: bool = True  # no item: `delay` of a lane's job never gives its seat back; `audit` repairs it


class Found(NamedTuple):
    """A job that P claimed."""

    id: str
    payload: bytes
    token: str
    lane: str | None


class Peer:
    """P at work on one queue. What the protocol answers with an error is raised as the connector raises it."""

    def __init__(self, bus: Connector, queue: str, habits: Habits | None = None) -> None:
        self.queue = queue
        self.habits = habits or Habits()
        self.mint = _MINT
        self._bus = bus
        self._prefix = keyspace.of(queue).prefix
        self._read = 0  # entries of the outbox that were delivered and are not cut yet

    async def _run(self, verb: str, *args: Any, prefix: str = "") -> Any:
        text = [arg if isinstance(arg, bytes) else str(arg) for arg in args]
        return await self._bus.execute("EVAL", script(verb), 1, prefix or self._prefix, *text)

    async def _raw(self, command: str, key: str, *rest: Any) -> Any:
        return await self._bus.execute(command, self._prefix + key, *rest)

    async def _link(self, job_id: str) -> tuple[str, str, str]:
        found = await self._raw("HMGET", f"job:{job_id}", "parent", "parent_queue", "parent_policy")
        parent, queue, policy = [(part or b"").decode() for part in found]
        return parent, queue, "id" if policy == "id" else "fp"

    # Coming in.

    async def enqueue(self, payload: bytes, lane: str | None = None, delay_ms: int | None = None) -> str:
        """A new job; only a flat one can be delayed, and none wakes a worker unless its lane enters the ring."""
        job_id = self.mint.mint("JOB")
        assert await self._run("enqueue", job_id, payload, lane or "", "" if delay_ms is None else delay_ms) == 1
        return job_id

    async def add_flow(self, children: Mapping[bytes, Peer], policy: str = "fp") -> tuple[str, Sequence[str]]:
        """A parent here and its children, each on the queue of its peer: first the parent, then one by one."""
        parent, held, ids = b"parent", self.mint.mint("JOB"), [self.mint.mint("JOB") for _ in children]
        await self._run("hold", held, parent, len(children))
        for child, (payload, peer) in zip(ids, children.items(), strict=True):
            away = self.queue if peer.queue != self.queue else ""
            await self._run("child", child, payload, held, away, policy, prefix=keyspace.of(peer.queue).prefix)
        return held, ids

    async def repeat(self, name: str, every_ms: int, template: bytes) -> None:
        """A job every so often; a name that is there stays as it is."""
        if not await self._raw("EXISTS", f"repeat:{name}"):
            await self._raw("HSET", f"repeat:{name}", "every_ms", every_ms, "template", template)
            await self._raw("ZADD", "repeat", 1, name)

    # Claims.

    async def claim_flat(self, lease_ms: int) -> Found | None:
        """The head of the flat backlog, whatever row it has; it takes no seat."""
        return await self._claim("claim", lease_ms)

    async def claim_lane(self, lease_ms: int) -> Found | None:
        """One step of the rota."""
        return await self._claim("gclaim", lease_ms)

    async def _claim(self, verb: str, lease_ms: int) -> Found | None:
        if await self._raw("HGET", "meta", "paused") is not None:
            return None
        found = await self._run(verb, lease_ms)
        return Found(found[0].decode(), found[1], found[2].decode(), found[3].decode() or None) if found else None

    # Settlements.

    async def complete(self, job_id: str, token: str, result: bytes | None = None) -> bool:
        """Whether the job was there."""
        parent, queue, _ = await self._link(job_id)
        return await self._run("complete", job_id, token, parent, queue, result or job_id) == 1

    async def retry(self, job_id: str, token: str, delay_ms: int, max_attempts: int, error: str) -> str:
        """`scheduled` or `dead`; attempts are the only counter. A parent's own death climbs by the client's hand."""
        parent, queue, policy = await self._link(job_id)
        after = await self._run("retry", job_id, token, delay_ms, max_attempts, error, parent, queue, policy)
        if after == b"dead" and parent and not queue and policy == "fp":
            await self._climb(parent, error)
        return after.decode()

    async def _climb(self, died: str, error: str) -> None:
        parent, queue, policy = await self._link(died)
        if parent:
            entry = [b"", b"fail", (queue or self.queue).encode(), parent.encode(), died.encode(), policy.encode()]
            await self._raw("RPUSH", "flow:outbox", _NUL.join([*entry, error.encode()]))

    async def delay(self, job_id: str, token: str, ms: int) -> None:
        """Put off without a failure; the attempt stays counted."""
        await self._run("delay", job_id, token, ms, int(self.habits.delay_keeps_seat))

    # Its pump.

    async def promote(self) -> int:
        """What is due comes back."""
        return await self._run("promote")

    async def reap(self) -> int:
        """What lapsed comes back, and nothing is counted."""
        return await self._run("reap")

    async def stalled(self, most: int) -> int:
        """What lapsed comes back and is counted, or dies; its parent does not hear of it."""
        return await self._run("stalled", most, int(self.habits.stall_leaves_ring))

    async def fire(self) -> list[str]:
        """Due repeats, each as a flat job; the ids. The record's removal leaves nothing to fire."""
        ids: list[str] = []
        for name in await self._raw("ZRANGEBYSCORE", "repeat", "-inf", await self._now()):
            job_id = self.mint.mint("JOB")
            if await self._run("fire", name, job_id, int(self.habits.forgets_strange_repeats)):
                ids.append(job_id)
        return ids

    async def deliver(self) -> None:
        """Tell parents elsewhere. With its habit the entries are cut at the next call only: others pop in between."""
        if self._read:
            await self._raw("LTRIM", "flow:outbox", self._read, -1)
            self._read = 0
            return
        entries: list[bytes] = await self._raw("LRANGE", "flow:outbox", 0, 99)
        for entry in entries:
            await self._tell(entry)
        if self.habits.trims_blindly:
            self._read = len(entries)
        elif entries:
            await self._raw("LTRIM", "flow:outbox", len(entries), -1)

    async def _tell(self, entry: bytes) -> None:
        if not entry.startswith(_NUL):
            queue, parent, child, result = entry.split(_NUL, 3)
            await self._run("tell_done", parent, child, result, prefix=keyspace.of(queue.decode()).prefix)
            return
        _, _, queue, parent, child, policy, error = entry.split(_NUL, 6)
        there = Peer(self._bus, queue.decode(), self.habits)
        before = await there._raw("HGET", f"job:{parent.decode()}", "state")
        await self._run("tell_failed", parent, child, policy, error, prefix=there._prefix)
        if before != b"dead" and await there._raw("HGET", f"job:{parent.decode()}", "state") == b"dead":
            await there._climb(parent.decode(), error.decode())

    async def _now(self) -> int:
        seconds, micros = await self._bus.execute("TIME")
        return int(seconds) * 1000 + int(micros) // 1000

    # Operators.

    async def reprocess(self, job_id: str) -> bool:
        """A dead letter waits again; attempts and everything that P does not know stay in its row."""
        return await self._run("reprocess", job_id, int(self.habits.reprocesses_flat)) == 1

    async def pause(self, lane: str) -> None:
        """The lane leaves the ring."""
        await self._run("pause", lane)

    async def resume(self, lane: str) -> None:
        """The lane comes back."""
        await self._run("resume", lane)

    async def limit(self, lane: str, n: int) -> None:
        """At most `n` of the lane in flight."""
        await self._run("limit", lane, n)
