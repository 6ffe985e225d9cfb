"""Keeps the leases of a worker whose event loop is blocked: one thread for the whole process, with a socket of its own.

The thread asks each worker's loop for a sign of life, six times in a lease. While none comes it renews the leases with
the same script and the same fence, until a bound: three leases, or the time limit of the job whose handler blocks.
Beyond the bound that job is given up. Its lease lapses, so that another worker takes it; one that had lapsed before
becomes a dead letter. The other jobs go back as if never claimed. While the loop turns, the thread sends nothing and
has no socket. It cannot help while C code keeps the interpreter's lock.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, NamedTuple

from codemojex.engine import keyspace
from codemojex.engine.error_text import describe
from codemojex.engine.errors import EngineError
from codemojex.engine.jobs import settlement
from codemojex.engine.jobs.outcome import Discard, GiveBack
from codemojex.engine.jobs.settlement import Settlement
from codemojex.engine.transport.connector import Connector, OpenedWith

BOUND = 3  # leases
REMEDY = "make it a plain function (`def`): it then runs in a thread"
_PARTS = 6  # signs of life in a lease
_SHORTEST_S = 0.01
_log = logging.getLogger(__name__)


class Grip(NamedTuple):
    """A claimed job as the guard sees it.

    `since` is when its handler was called (monotonic), None before that. `finished`: only the settlement is missing.
    """

    job_id: str
    token: str
    stalled: int
    timeout_ms: int | None
    task: asyncio.Task[None] | None
    since: float | None
    finished: bool = False


@dataclass(slots=True)
class Blocked:
    """One time that the loop did not turn. `jobs`: those whose handler blocks it; empty when that is not known."""

    since: float
    jobs: tuple[str, ...]
    handler: str
    where: str


@dataclass(frozen=True)
class Ward:
    """A worker to look after. `held` is called in the guard's thread, `blocked` in the worker's loop once it turns."""

    opened: OpenedWith
    queue: str
    handler: str
    lease_ms: int
    held: Callable[[], Sequence[Grip]]
    blocked: Callable[[Blocked], None]
    loop: asyncio.AbstractEventLoop
    thread: int


class Guard:
    """The thread. It runs while there is somebody to look after."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._end = asyncio.Event()
        self._wards = 0
        self._process = os.getpid()

    def enter(self, ward: Ward) -> Future[None]:
        """Look after a worker from now on, until `leave`."""
        if self._process != os.getpid():  # forked: the thread stayed behind
            self.__init__()
        with self._lock:
            self._wards += 1
            loop = self._loop or self._started()
            return asyncio.run_coroutine_threadsafe(_look_after(ward, self._ways), loop)

    def leave(self, look: Future[None]) -> None:
        """Look after it no longer; the last one ends the thread."""
        look.cancel()
        with self._lock:
            self._wards -= 1
            loop, end = self._loop, self._end
            if self._wards or loop is None:
                return
            self._loop = None
        loop.call_soon_threadsafe(end.set)

    def _started(self) -> asyncio.AbstractEventLoop:
        ready = threading.Event()
        self._ways: dict[OpenedWith, Connector] = {}
        self._end = asyncio.Event()
        threading.Thread(target=self._run, args=(ready, self._ways, self._end), name="lease-guard", daemon=True).start()
        ready.wait()
        assert self._loop is not None
        return self._loop

    def _run(self, ready: threading.Event, ways: dict[OpenedWith, Connector], end: asyncio.Event) -> None:
        async def main() -> None:
            self._loop = asyncio.get_running_loop()
            ready.set()
            await end.wait()
            for way in ways.values():
                await way.close()

        asyncio.run(main())


async def _look_after(ward: Ward, ways: dict[OpenedWith, Connector]) -> None:
    period_s = max(_SHORTEST_S, ward.lease_ms / 1000 / _PARTS)
    while True:
        if not ward.held():
            await asyncio.sleep(period_s)
            continue
        asked = time.monotonic()
        sign = _Sign()
        try:
            ward.loop.call_soon_threadsafe(sign.give)
        except RuntimeError:  # the loop was closed with its worker in it
            return
        await asyncio.sleep(period_s)
        if not sign.given and time.monotonic() - asked > 2 * period_s:
            await asyncio.sleep(period_s)  # the whole process stood still, so the loop had no time to answer yet
        if sign.given or not (grips := ward.held()):
            continue
        way = ways.get(ward.opened) or ways.setdefault(ward.opened, Connector.thin(ward.opened))
        try:
            await _Rescue(ward, way, sign, asked, grips).run(period_s)
        except Exception:  # a defect must not end the care for this worker
            _log.exception("the leases of queue %s could not be kept", ward.queue)
            await asyncio.sleep(period_s)


class _Sign:
    given = False

    def give(self) -> None:
        self.given = True


class _Rescue:
    """One time that a loop is blocked."""

    def __init__(self, ward: Ward, way: Connector, sign: _Sign, since: float, grips: Sequence[Grip]) -> None:
        self._ward = ward
        self._way = way
        self._sign = sign
        self._grips = [*grips]
        task = asyncio.current_task(ward.loop)  # the task that the blocked loop is in
        self._guilty = {grip.job_id: grip for grip in grips if task is not None and grip.task is task}
        self._told = Blocked(since, tuple(self._guilty), ward.handler, _where(ward.thread))

    async def run(self, period_s: float) -> None:
        """Renew until the loop turns again or the bound is reached; then wait for the loop."""
        ward, told = self._ward, self._told
        ward.loop.call_soon_threadsafe(ward.blocked, told)
        await self._try(self._way.execute("HINCRBY", keyspace.of(ward.queue).key("metrics:blocked"), "count", 1))
        due = 0.0
        while not self._sign.given:
            now = time.monotonic()
            await self._give_up(now)
            if self._grips and now >= due:
                held = [(grip.job_id, grip.token) for grip in self._grips]
                await self._try(settlement.renew_many(self._way, ward.queue, held, ward.lease_ms))
                due = now + ward.lease_ms / 3000
            await asyncio.sleep(period_s)

    async def _give_up(self, now: float) -> None:
        over = [grip for grip in self._grips if now >= self._bound(grip)]
        if not over:
            return
        self._grips = [grip for grip in self._grips if grip not in over]
        blocked_ms = int((now - self._told.since) * 1000)
        reason = f"its handler {self._ward.handler} blocked the event loop for {blocked_ms} ms at {self._told.where}"
        ends = list[Settlement]()
        for grip in over:
            if grip.job_id in self._guilty:
                end = "its lease lapses, and another worker may take it"
                if grip.stalled:
                    end = "it had lapsed before, so it becomes a dead letter"
                    ends.append(Settlement(grip.job_id, grip.token, Discard(f"{reason}, again: {REMEDY}")))
                _log.warning(
                    "job %s of queue %s is given up: %s; %s; %s", grip.job_id, self._ward.queue, reason, end, REMEDY
                )
            elif self._guilty and not grip.finished:
                ends.append(Settlement(grip.job_id, grip.token, GiveBack()))
        if ends:
            await self._try(settlement.settle_many(self._way, self._ward.queue, ends))

    def _bound(self, grip: Grip) -> float:
        """Until when this lease is renewed."""
        if grip.job_id in self._guilty and grip.timeout_ms and grip.since is not None:
            return grip.since + grip.timeout_ms / 1000
        return self._told.since + BOUND * self._ward.lease_ms / 1000

    async def _try(self, call: Any) -> None:
        try:
            await call
        except EngineError as error:  # the next turn tries again; without an answer the leases lapse
            _log.warning("the leases of queue %s could not be kept: %s", self._ward.queue, describe(error))


def _where(thread: int) -> str:
    """The line that a thread is in now."""
    frame = sys._current_frames().get(thread)  # pyright: ignore[reportPrivateUsage]  # documented
    if frame is None:
        return "an unknown place"
    code = frame.f_code
    return f"{os.path.basename(code.co_filename)}:{frame.f_lineno} ({code.co_name})"


guard = Guard()
