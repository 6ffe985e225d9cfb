"""Trims streams and dead letters on a beat, for those who ask for it.

The policies live in the memory of this process; nothing of them is stored. A trim here is never forced: it stops at
the archive's watermark and at the slowest consumer group, and says who held it. A trim that fails is reported and
skipped, the others have their turn. Two drivers with the same policies do no harm.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from codemojex.engine import keyspace, validation
from codemojex.engine.clock import Clock, clock_or
from codemojex.engine.errors import ConnectionFault, EngineError, InvalidValue
from codemojex.engine.inspection import admin
from codemojex.engine.observer import Observe, observer
from codemojex.engine.streams import retention
from codemojex.engine.streams.retention import MaxLen, MinId, Trimmed
from codemojex.engine.transport.connector import Connector, connector
from codemojex.engine.waiting import wait

MAX_POLICIES = 10_000
_LONGEST_TICK_MS = 7 * 86_400_000
MAX_AGE_MS = 100 * 366 * 86_400_000


@dataclass(frozen=True, slots=True)
class MaxAge:
    """Keep records of the last `ms` milliseconds by the driver's clock; `approx` may keep a few more."""

    ms: int
    approx: bool = False

    def __post_init__(self) -> None:
        validation.integer("max age ms", self.ms, 0, MAX_AGE_MS)
        validation.flag("approx", self.approx)

    def window(self, now_ms: int) -> MinId:
        """The window that this means at `now_ms`."""
        return MinId(max(0, now_ms - self.ms), self.approx)


@dataclass(frozen=True, slots=True)
class RetentionPolicy:
    """What to keep of one stream. `require_archived`: without a watermark the archive needs everything."""

    queue: str
    stream: str
    window: MaxLen | MinId | MaxAge
    require_archived: bool = False

    def __post_init__(self) -> None:
        keyspace.of(self.queue).stream(self.stream)
        validation.one_of("window", self.window, MaxLen, MinId, MaxAge)
        validation.flag("require_archived", self.require_archived)


@dataclass(frozen=True, slots=True)
class DeadLetters:
    """What to keep of a queue's dead letters: the newest `keep`, of jobs made in the last `max_age_ms` (None: ever)."""

    queue: str
    keep: int = 10_000
    max_age_ms: int | None = None

    def __post_init__(self) -> None:
        keyspace.of(self.queue)
        validation.integer("keep", self.keep, 0, admin.MOST)
        if self.max_age_ms is not None:
            validation.integer("max_age_ms", self.max_age_ms, 0, MAX_AGE_MS)


Policy = RetentionPolicy | DeadLetters


class RetentionLoop:
    """Applies `policies` every `tick_ms`. `await run()` until `stop()`; `sweep` is one turn."""

    def __init__(
        self,
        bus: Connector,
        policies: Sequence[Policy],
        *,
        clock: Clock | None = None,
        tick_ms: int = 1_000,
        observe: Observe | None = None,
    ) -> None:
        validation.integer("tick_ms", tick_ms, 1, _LONGEST_TICK_MS)
        given = validation.many("policies", policies, RetentionPolicy, DeadLetters)
        if len(given) > MAX_POLICIES:
            raise InvalidValue(f"{len(given)} policies are too many: use at most {MAX_POLICIES}")
        self._bus = connector("bus", bus)
        self._policies = given
        self._clock = clock_or(clock)
        self._tick_s = tick_ms / 1000
        self._observe = observer(observe)
        self._stop = asyncio.Event()

    def stop(self) -> None:
        """End `run` after the present trim."""
        self._stop.set()

    async def run(self) -> None:
        """Trim until `stop`."""
        while not self._stop.is_set():
            await self.sweep()
            await wait(self._stop, self._tick_s)

    async def sweep(self) -> list[Trimmed | None]:
        """Apply every policy once; the results in their order, None for one that failed or that `stop` forestalled."""
        results: list[Trimmed | None] = []
        for policy in self._policies:
            if self._stop.is_set():
                results.append(None)
            elif isinstance(policy, DeadLetters):
                results.append(await self._bury(policy))
            else:
                results.append(await self._trim(policy))
        return results

    async def _bury(self, policy: DeadLetters) -> Trimmed | None:
        before = None if policy.max_age_ms is None else max(0, self._clock.now_ms() - policy.max_age_ms)
        try:
            gone = await admin.trim_dead(self._bus, policy.queue, keep=policy.keep, minted_before_ms=before)
        except EngineError as error:
            self._observe(
                "retention.fault",
                {
                    "queue": policy.queue,
                    "stream": None,
                    "error": str(error),
                    "away": isinstance(error, ConnectionFault),
                },
            )
            return None
        if gone:
            self._observe("retention.dead_trimmed", {"queue": policy.queue, "removed": gone})
        return Trimmed(gone)

    async def _trim(self, policy: RetentionPolicy) -> Trimmed | None:
        window = policy.window
        if isinstance(window, MaxAge):
            window = window.window(self._clock.now_ms())
        where: dict[str, object] = {"queue": policy.queue, "stream": policy.stream}
        try:
            trimmed = await retention.trim(
                self._bus, policy.queue, policy.stream, window, require_archived=policy.require_archived
            )
        except EngineError as error:
            self._observe("retention.fault", {**where, "error": str(error), "away": isinstance(error, ConnectionFault)})
            return None
        if trimmed.removed or trimmed.held_by:
            self._observe(
                "retention.trimmed",
                {**where, "removed": trimmed.removed, "held_by": trimmed.held_by, "held_from": trimmed.held_from},
            )
        return trimmed
