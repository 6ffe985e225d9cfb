"""Marks on jobs in flight that keep operators from removing them.

A mark is the key `…:lock` and the row's field `lock`, both with the holder's token and a life time of twice the lease,
so a holder that vanishes unlocks by itself. The marks protect from `admin.remove_job` only; who may settle is decided
by the lease and the token. Opt-in: a worker does not mark its jobs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from codemojex.engine import ids, keyspace, validation
from codemojex.engine.errors import ConnectionFault, InvalidValue, ServerError
from codemojex.engine.jobs.claims import MAX_LEASE_MS, check_lease
from codemojex.engine.scripts import ENGINE
from codemojex.engine.transport.connector import Connector, connector
from codemojex.engine.waiting import wait

MAX_HELD = 500
Held = tuple[str, str]  # job id, token


async def track(bus: Connector, queue: str, held: Sequence[Held], ttl_ms: int) -> list[bool]:
    """Mark jobs as held for `ttl_ms`; False, and no mark, for one that is not in flight."""
    args = [validation.integer("ttl_ms", ttl_ms, 1, 2 * MAX_LEASE_MS), *_flat(held)]
    replies = await bus.run(ENGINE.script("lock_set"), (keyspace.of(queue).prefix,), args)
    return [reply == 1 for reply in replies]


async def untrack(bus: Connector, queue: str, held: Sequence[Held]) -> list[bool]:
    """Take the marks away; False where the job carries none of this token."""
    replies = await bus.run(ENGINE.script("lock_clear"), (keyspace.of(queue).prefix,), _flat(held))
    return [reply == 1 for reply in replies]


async def refresh(bus: Connector, queue: str, held: Sequence[Held], lease_ms: int) -> list[str]:
    """Renew the leases, and the marks of those that could be renewed; the ids that are not held any more."""
    check_lease(lease_ms)
    args = [lease_ms, 2 * lease_ms, *_flat(held)]
    replies = await bus.run(ENGINE.script("lock_refresh"), (keyspace.of(queue).prefix,), args)
    return [job_id for (job_id, _), reply in zip(held, replies, strict=True) if reply in (b"stale", b"gone")]


class LockPlane:
    """The jobs that one process holds: marked when tracked, renewed together every half lease by `run`."""

    def __init__(self, bus: Connector, queue: str, lease_ms: int = 30_000) -> None:
        check_lease(lease_ms)
        self._bus = connector("bus", bus)
        self._queue = keyspace.of(queue).queue
        self._lease_ms = lease_ms
        self._held: dict[str, str] = {}
        self._stop = asyncio.Event()

    @property
    def held(self) -> dict[str, str]:
        """Tracked jobs and their tokens."""
        return dict(self._held)

    async def track(self, job_id: str, token: str) -> bool:
        """Mark a job and renew it from now on; False, and not tracked, when it is not in flight."""
        if len(self._held) >= MAX_HELD and job_id not in self._held:
            raise InvalidValue(f"{MAX_HELD} jobs are tracked already: untrack some, or use another lock plane")
        marked = (await track(self._bus, self._queue, [(job_id, token)], 2 * self._lease_ms))[0]
        if marked:
            self._held[job_id] = token
        return marked

    async def untrack(self, job_id: str) -> bool:
        """Forget a job and take its marks away; False when it was not tracked or carries somebody else's."""
        token = self._held.pop(job_id, None)
        return token is not None and (await untrack(self._bus, self._queue, [(job_id, token)]))[0]

    async def beat(self) -> list[str]:
        """Renew everything once; the ids that are not held any more. They stay tracked until `untrack`."""
        if not self._held:
            return []
        return await refresh(self._bus, self._queue, list(self._held.items()), self._lease_ms)

    def stop(self) -> None:
        """End `run`."""
        self._stop.set()

    async def run(self) -> None:
        """Beat every half lease until `stop`; a server that cannot be reached is tried again at the next beat."""
        while not await wait(self._stop, max(1, self._lease_ms // 2) / 1000):
            try:
                await self.beat()
            except (ConnectionFault, ServerError):
                continue


def _flat(held: Sequence[Held]) -> list[str | int]:
    held = validation.pairs("held", held)
    if not 1 <= len(held) <= MAX_HELD:
        raise InvalidValue(f"{len(held)} jobs in one call are out of range: use 1 to {MAX_HELD}")
    return [part for job_id, token in held for part in (ids.require(job_id), validation.text("token", token))]
