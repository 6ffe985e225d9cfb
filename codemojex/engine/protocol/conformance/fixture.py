"""What a scenario plays on: one throw-away queue, raw reads of its keys, and the hands of time.

Raw reads go past the engine's verbs, so that a scenario sees what a peer in another language sees. Leases and due times
are scores; `lapse` and `due` move them into the past, so that hardly any scenario waits for a clock.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from typing import Any

from codemojex.engine import ids, keyspace
from codemojex.engine.ids import Minter
from codemojex.engine.inspection import audit
from codemojex.engine.jobs import claims, jobs, registry, settlement
from codemojex.engine.jobs.jobs import Job, NewJob, Verdict
from codemojex.engine.jobs.outcome import Complete, Outcome
from codemojex.engine.jobs.settlement import Policy, Settlement, SettleVerdict
from codemojex.engine.protocol import key_families
from codemojex.engine.protocol.conformance.neighbours import named
from codemojex.engine.transport.connector import Arg, Connector

LEASE_MS = 60_000
DEADLINE_S = 10.0
_SCAN_ROUNDS = 100_000
_KEYS_PER_DELETE = 500


class Broken(AssertionError):
    """A scenario saw something that must not be; the message says what."""


def that(holds: object, what: str) -> None:
    """Raise Broken, saying `what` must hold, unless it does."""
    if not holds:
        raise Broken(what)


def equal(got: object, wanted: object, what: str) -> None:
    """Raise Broken with both values unless they are equal."""
    if got != wanted:
        raise Broken(f"{what}: found {got!r} in place of {wanted!r}")


async def refused(call: Awaitable[object], error: type[Exception], what: str) -> Exception:
    """The exception that `call` raises; raise Broken when it raises nothing."""
    try:
        answer = await call
    except error as raised:
        return raised
    raise Broken(f"{what}: answered {answer!r} in place of {error.__name__}")


class ScenarioFixture:
    """One queue of one scenario. `close` removes every key of it."""

    def __init__(self, bus: Connector, url: str, queue: str, mint: Minter) -> None:
        self.bus = bus
        self.url = url
        self.queue = queue
        self.space = keyspace.of(queue)
        self.mint = mint
        self.props: set[str] = set()  # keys that the scenario made for itself
        self._ends = AsyncExitStack()

    def sibling(self, name: str) -> ScenarioFixture:
        """Another queue of the same scenario."""
        other = ScenarioFixture(self.bus, self.url, f"{self.queue}.{name}", self.mint)
        self._ends.push_async_callback(other.close)
        return other

    async def connect(self, *, max_connections: int = 4, max_blocking: int = 4, name: str = "") -> Connector:
        """A connection of its own, closed with the stage; the server knows its sockets by `name`."""
        url = named(self.url, name or self.queue)
        bus = await Connector.connect(url, max_connections=max_connections, max_blocking=max_blocking)
        self._ends.push_async_callback(bus.close)
        return bus

    async def close(self) -> None:
        """Close what was opened and delete the queue's keys; raise Broken for a key that the grammar does not know."""
        await self._ends.aclose()
        left = await self.keys()
        keys = [self.space.key(suffix) for suffix in left]
        for start in range(0, len(keys), _KEYS_PER_DELETE):
            await self.bus.execute("UNLINK", *keys[start : start + _KEYS_PER_DELETE])
        await registry.forget(self.bus, self.queue)
        self._in_the_grammar(left)

    def _in_the_grammar(self, left: dict[str, str]) -> None:
        for suffix, kind in left.items():
            family = key_families.family_of(suffix)
            known = suffix in self.props or (family is not None and family.type == kind)
            that(known, f"no family of keys has {suffix!r}, a {kind}")

    # names

    def id(self, namespace: str = "JOB") -> str:
        """A fresh id."""
        return self.mint.mint(namespace)

    def lane(self, number: int) -> str:
        """The name of a lane; the same number gives the same name."""
        return ids.derive("PRT", f"lane {number}")

    # raw reads

    async def raw(self, command: str, suffix: str, *rest: Arg) -> Any:  # a reply has no narrower type
        """A bare command on one of the queue's keys."""
        return await self.bus.execute(command, self.space.key(suffix), *rest)

    async def kind(self, suffix: str) -> str:
        """The type of a key, `none` when there is none."""
        return (await self.raw("TYPE", suffix)).decode()

    async def hash(self, suffix: str) -> dict[str, str]:
        """A hash as text."""
        return {name.decode(): value.decode() for name, value in (await self.raw("HGETALL", suffix)).items()}

    async def row(self, job_id: str) -> dict[str, str]:
        """A job's row as text; empty when there is none."""
        return await self.hash(f"job:{job_id}")

    async def scores(self, suffix: str) -> dict[str, float]:
        """A sorted set, in order."""
        pairs = await self.raw("ZRANGE", suffix, 0, -1, "WITHSCORES")
        return {member.decode(): float(score) for member, score in pairs}

    async def items(self, suffix: str) -> list[str]:
        """A list as text, head first."""
        return [item.decode() for item in await self.raw("LRANGE", suffix, 0, -1)]

    async def text(self, suffix: str) -> str | None:
        """A string as text."""
        value = await self.raw("GET", suffix)
        return None if value is None else value.decode()

    async def count(self, total: str) -> int:
        """A total of finished jobs: `completed` or `failed`."""
        return int((await self.hash(f"metrics:{total}")).get("count", "0"))

    async def keys(self) -> dict[str, str]:
        """Every key of the queue without its prefix, and its type."""
        found: dict[str, str] = {}
        cursor: Arg = b"0"
        for _ in range(_SCAN_ROUNDS):
            cursor, page = await self.bus.execute("SCAN", cursor, "MATCH", f"{self.space.prefix}*", "COUNT", 1000)
            for key in page:
                found[key.decode().removeprefix(self.space.prefix)] = (await self.bus.execute("TYPE", key)).decode()
            if cursor == b"0":
                break
        return {suffix: kind for suffix, kind in found.items() if kind != "none"}

    async def now_ms(self) -> int:
        """The server's clock."""
        seconds, micros = await self.bus.at(self.space.prefix, "TIME")
        return int(seconds) * 1000 + int(micros) // 1000

    # what scenarios do most

    async def put(self, *new: NewJob) -> list[Verdict]:
        """Admit jobs; their verdicts."""
        return await jobs.admit_many(self.bus, self.queue, new)

    def job(self, payload: bytes = b"x", lane: str | None = None, **more: Any) -> NewJob:
        """A job with a fresh id; `more` as in NewJob."""
        return NewJob(self.id(), payload, lane=lane, **more)

    async def fill(self, *lanes: str | None, payload: bytes = b"x") -> list[str]:
        """Admit one job per lane given, None for a flat one; their ids."""
        new = [self.job(payload, lane) for lane in lanes]
        verdicts = await self.put(*new)
        that(all(isinstance(v, jobs.Enqueued) for v in verdicts), f"fresh jobs are enqueued, not {verdicts}")
        return [job.id for job in new]

    async def take(self, n: int = 1) -> Sequence[Job]:
        """Claim exactly `n` jobs of lanes and flat backlog."""
        taken = (await claims.claim_many(self.bus, self.queue, n, LEASE_MS)).jobs
        equal(len(taken), n, "jobs of one claim")
        return taken

    async def settle(self, job: Job, outcome: Outcome | None = None, policy: Policy | None = None) -> SettleVerdict:
        """End one attempt; its verdict."""
        item = Settlement(job.id, job.token, outcome or Complete())
        return (await settlement.settle_many(self.bus, self.queue, [item], policy=policy or Policy()))[0]

    async def lapse(self, *job_ids: str) -> None:
        """The leases ran out."""
        for job_id in job_ids:
            equal(await self.raw("ZADD", "active", "XX", "CH", 1, job_id), 1, f"{job_id} is in flight")

    async def due(self, *job_ids: str) -> None:
        """The scheduled jobs' time has come."""
        for job_id in job_ids:
            equal(await self.raw("ZADD", "schedule", "XX", "CH", 1, job_id), 1, f"{job_id} is scheduled")

    async def until(self, holds: Callable[[], bool | Awaitable[bool]], what: str) -> None:
        """Wait until something holds, for a bounded time."""
        end = time.monotonic() + DEADLINE_S
        while time.monotonic() < end:
            answer = holds()
            if answer if isinstance(answer, bool) else await answer:
                return
            await asyncio.sleep(0.01)
        raise Broken(f"{what}: not within {DEADLINE_S:g} s")

    async def sound(self) -> None:
        """The queue's books are right."""
        found = await audit.audit(self.bus, self.queue)
        that(not found, "the audit finds " + "; ".join(f"{v.subject}: {v.what}" for v in found))
