"""What a handler does while it is measured, and a look at the server from inside the process that works.

It counts the jobs that began, and when the last of them has ended it knows how long they took, what they cost on both
sides, and when the second tenant's jobs ran. With a log it writes down every begin and end instead, so that nothing is
forgotten when the process is killed. Uses the standard library only: it runs beside every peer.
"""

from __future__ import annotations

import asyncio
import os
import resource
import socket
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

CONCURRENCY = 64
FLOOD, OTHER = "flood", "other"  # the two tenants
OTHERS = 10  # jobs of the second tenant, behind the flood of the first


@dataclass(slots=True)
class Usage:
    """Counters of both sides at one moment: seconds and numbers since their start."""

    wall_s: float
    client_s: float
    server_s: float
    commands: int
    reads: int

    @classmethod
    def now(cls, path: str) -> Usage:
        """Look at the server behind the unix socket `path` and at this process."""
        fields = info(path)
        return cls(
            time.perf_counter(),
            time.process_time(),
            float(fields["used_cpu_user_main_thread"]) + float(fields["used_cpu_sys_main_thread"]),
            int(fields["total_commands_processed"]),
            int(fields["total_reads_processed"]),
        )

    def per_job(self, before: Usage, count: int) -> dict[str, float]:
        """What `count` jobs took since `before`."""
        return {
            "jobs_per_s": count / (self.wall_s - before.wall_s),
            "client_us": (self.client_s - before.client_s) / count * 1e6,
            "server_us": (self.server_s - before.server_s) / count * 1e6,
            "commands": (self.commands - before.commands) / count,
            "round_trips": (self.reads - before.reads) / count,
        }


@dataclass(slots=True)
class Probe:
    """Counts jobs. `done(result)` is called once, when `expected` jobs have ended or `limit_s` is over.

    `pause_s`: how long a job lasts. `log`: a file that gets a line per begin and end. `lease_ms`: shorter leases than
    the usual, 0 for the usual. `latency`: payloads are moments, in ns of the monotonic clock.
    """

    path: str
    expected: int
    done: Callable[[dict[str, Any]], None]
    pause_s: float = 0.0
    log: str = ""
    lease_ms: int = 0
    latency: bool = False
    limit_s: float = 60.0
    _ended: int = 0
    _flood: int = 0
    _other: int = 0
    _flood_before_other: int = 0
    _start: Usage | None = None
    _waits_ms: list[float] = field(default_factory=list[float])
    _file: int = -1
    _threads: threading.Lock = field(default_factory=threading.Lock)

    async def run(self, payload: str) -> None:
        """The body of an asynchronous handler."""
        self.begin(payload)
        if self.pause_s:
            await asyncio.sleep(self.pause_s)
        self.end(payload)

    def run_blocking(self, payload: str) -> None:
        """The body of a handler in a thread."""
        with self._threads:
            self.begin(payload)
        if self.pause_s:
            time.sleep(self.pause_s)
        with self._threads:
            self.end(payload)

    def begin(self, payload: str) -> None:
        """A job begins."""
        if self.latency:
            self._waits_ms.append((time.monotonic_ns() - int(payload)) / 1e6)
        elif self.log:
            self._write(f"begin {payload}\n")
            return
        elif self._start is None:
            self._start = Usage.now(self.path)
        if payload.startswith(FLOOD):
            self._flood += 1
        elif payload.startswith(OTHER):
            self._other += 1
            self._flood_before_other = self._flood

    def end(self, payload: str) -> None:
        """A job ends."""
        if self.log:
            self._write(f"end {payload}\n")
            return
        self._ended += 1
        if self._ended == 1 and self.latency:
            print("ready", flush=True)
        late = self._start is not None and time.perf_counter() - self._start.wall_s > self.limit_s
        if self._ended == self.expected or late:
            self.done(self._result())

    def _result(self) -> dict[str, Any]:
        if self.latency:
            waits = sorted(self._waits_ms[1:])  # the first one waited for the worker's start
            return {"median_ms": waits[len(waits) // 2], "p99_ms": waits[len(waits) * 99 // 100]}
        assert self._start is not None, "no job began"
        result: dict[str, Any] = Usage.now(self.path).per_job(self._start, self._ended)
        before = self._flood_before_other if self._other == OTHERS else self._flood
        return result | {"flood_before_other": before, "rss_mib": rss_mib()}

    def _write(self, line: str) -> None:
        if self._file < 0:
            self._file = os.open(self.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.write(self._file, line.encode())


async def at_once(put: Callable[[str], Awaitable[object]], payloads: Iterable[str]) -> None:
    """Enqueue through as many callers as a worker has places, for a system without a call for many."""
    waiting = iter(payloads)

    async def caller() -> None:
        for payload in waiting:
            await put(payload)

    async with asyncio.TaskGroup() as callers:
        for _ in range(CONCURRENCY):
            callers.create_task(caller())


def ask(path: str, *commands: str) -> str:
    """What the server behind a unix socket answers to a few commands, on a connection of its own."""
    with socket.socket(socket.AF_UNIX) as link:
        link.settimeout(30.0)
        link.connect(path)
        link.sendall("".join(f"{command}\r\n" for command in (*commands, "QUIT")).encode())
        text = b""
        while chunk := link.recv(65536):
            text += chunk
    return text.decode()


def info(path: str) -> dict[str, str]:
    """INFO of that server."""
    return dict(line.split(":", 1) for line in ask(path, "INFO everything").splitlines() if ":" in line)


def rss_mib() -> float:
    """Resident memory of this process; its peak where the present size is not told."""
    try:
        with open("/proc/self/statm") as pages:
            return int(pages.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20
    except OSError:
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak / (2**20 if sys.platform == "darwin" else 2**10)
