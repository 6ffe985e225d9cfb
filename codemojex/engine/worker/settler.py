"""What a worker finished, on its way to the server: kept until it is answered, sent together, told to listeners.

A lost answer puts it back: the fence makes a second try harmless. A server without memory is asked again after a
pause. What cannot be sent together is sent one by one, so that a bad one does not hold the others back. What else
cannot be settled stays in flight: its lease lapses, and recoveries are capped.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

from codemojex.engine.error_text import describe
from codemojex.engine.errors import ConnectionFault, ServerError, VersionFence
from codemojex.engine.jobs import pubsub, settlement
from codemojex.engine.jobs.claims import Claimed
from codemojex.engine.jobs.effects import EffectBody
from codemojex.engine.jobs.outcome import Complete, Delay, Discard, Outcome, Retry
from codemojex.engine.jobs.settlement import EffectFailure, Policy, Settled, Settlement, SettleVerdict
from codemojex.engine.observer import Observe
from codemojex.engine.transport.connector import Connector
from codemojex.engine.waiting import reconnect_s

_MAX_TOLD = 500  # characters of an error that listeners hear


class Settler:
    """The finished attempts of one worker. With `publish` their ends are told to listeners of the queue."""

    def __init__(
        self,
        bus: Connector,
        queue: str,
        policy: Policy,
        effects: Sequence[EffectBody],
        observe: Observe,
        *,
        publish: bool,
        lane_limit: int | None = None,
    ) -> None:
        self._bus = bus
        self._queue = queue
        self._policy = policy
        self._effects = effects
        self._observe = observe
        self._publish = publish
        self._lane_limit = lane_limit
        self._finished: list[Settlement] = []
        self._held: list[Settlement] = []  # refused by a server without memory, to be sent again after a pause
        self._untold: list[bytes] = []

    @property
    def ready(self) -> bool:
        """Whether there is something to send now."""
        return bool(self._finished)

    @property
    def held(self) -> bool:
        """Whether there is something to send after a pause."""
        return bool(self._held)

    def unsent(self) -> list[tuple[str, str]]:
        """The jobs, with their tokens, that are finished and that the server has not heard of."""
        return [(item.job_id, item.token) for item in [*self._finished, *self._held]]

    def add(self, job_id: str, token: str, outcome: Outcome) -> None:
        """An attempt ended so."""
        self._finished.append(Settlement(job_id, token, outcome))

    async def settle_and_claim(self, free: int, lease_ms: int) -> Claimed:
        """Send everything and claim up to `free` jobs, in one round trip."""
        batch, self._finished, self._held = self._held + self._finished, [], []
        try:
            verdicts, claimed = await settlement.settle_and_claim(
                self._bus,
                self._queue,
                batch,
                free,
                lease_ms,
                effects=self._effects,
                policy=self._policy,
                lane_limit=self._lane_limit,
            )
        except BaseException as error:
            if not batch or not _unsendable(error):
                self._finished = batch + self._finished
                raise
            await self._settle_each(batch, error)
            _, claimed = await settlement.settle_and_claim(
                self._bus, self._queue, (), free, lease_ms, lane_limit=self._lane_limit
            )
            return claimed
        self._answered(batch, verdicts)
        return claimed

    async def publish(self) -> None:
        """Tell listeners what became of the jobs: at most once, whatever the server answers."""
        texts, self._untold = self._untold, []
        if not texts:
            return
        try:
            await pubsub.publish_many(self._bus, self._queue, texts)
        except (ConnectionFault, ServerError) as error:
            self._observe(
                "worker.fault",
                {"queue": self._queue, "error": describe(error), "away": isinstance(error, ConnectionFault)},
            )

    async def flush(self, deadline: float) -> None:
        """Send what is finished, again after faults until `deadline`; then the leases lapse and others recover."""
        faults = 0
        self._finished, self._held = self._held + self._finished, []
        while self._finished:
            batch, self._finished = self._finished, []
            try:
                await self._settle(batch)
                await self.publish()
            except (ConnectionFault, ServerError) as error:
                faults += 1
                self._observe(
                    "worker.fault",
                    {"queue": self._queue, "error": describe(error), "away": isinstance(error, ConnectionFault)},
                )
                pause_s = reconnect_s(faults)
                if time.monotonic() + pause_s > deadline:
                    return
                await asyncio.sleep(pause_s)

    async def _settle(self, batch: list[Settlement]) -> None:
        try:
            verdicts = await settlement.settle_many(
                self._bus, self._queue, batch, effects=self._effects, policy=self._policy
            )
        except BaseException as error:
            if not _unsendable(error):
                self._finished = batch + self._finished
                raise
            await self._settle_each(batch, error)
        else:
            self._answered(batch, verdicts)

    async def _settle_each(self, batch: list[Settlement], error: BaseException) -> None:
        """Send one by one what `error` kept from being sent together; who is to blame for it fails its job."""
        if len(batch) > 1:
            for i, item in enumerate(batch):
                try:
                    await self._settle([item])
                except BaseException:
                    self._finished += batch[i + 1 :]
                    raise
            return
        (item,), text = batch, describe(error)
        self._observe("worker.failed", {"queue": self._queue, "jobs": [item.job_id], "error": text})
        if not isinstance(item.outcome, Retry):  # of a Retry nothing is left to try: its lease lapses
            self.add(item.job_id, item.token, Retry(text))

    def _answered(self, batch: Sequence[Settlement], verdicts: Sequence[SettleVerdict]) -> None:
        for item, verdict in zip(batch, verdicts, strict=True):
            self._observe(
                "worker.settled",
                {"queue": self._queue, "job": item.job_id, "outcome": item.outcome, "verdict": verdict},
            )
            if isinstance(verdict, Settled):
                self._untold += _event(item, verdict) if self._publish else ()
            elif isinstance(verdict, EffectFailure) and "OOM" in verdict.reason:
                self._held.append(item)
            elif isinstance(verdict, EffectFailure) and isinstance(item.outcome, Complete):
                self.add(item.job_id, item.token, Retry(f"effect failed: {verdict.reason}"))


def _unsendable(error: BaseException) -> bool:
    """Whether what was to be sent is to blame, and neither the connection nor the server nor the caller's end."""
    return isinstance(error, Exception) and not isinstance(error, ConnectionFault | ServerError | VersionFence)


def _event(item: Settlement, verdict: Settled) -> Sequence[bytes]:
    """What listeners hear of this end: one event, or nothing."""
    match item.outcome:
        case Complete():
            return [pubsub.encode("completed", item.job_id)]
        case Retry(error=error) | Discard(error=error):
            return [pubsub.encode("failed", item.job_id, error=error[:_MAX_TOLD], state=verdict.state)]
        case Delay():
            return [pubsub.encode("delayed", item.job_id)]
        case _:
            return ()
