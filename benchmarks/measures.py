"""What is measured of a system, each task in a process of its own against the one server.

The same server, socket, durability, payload and number of places for everybody; the server is emptied in between. A
system that fails or hangs is a `Missing` with one line of reason. Nothing here knows one system from another.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.probe import OTHERS, ask, info
from benchmarks.systems import ROOT, Missing, python_of

CRASH_LEASE_MS = 2_000
_CRASH_JOB_S = 0.1
_POLL_S = 0.02
_TASK_S = 90.0


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much is measured: jobs of the flood, of which `single` one by one; offers to an idle queue; jobs of the
    worker that is killed (0: none is), and how long its jobs are waited for; rounds, of which the best counts; seconds
    of work after which a slow system is stopped; jobs and lanes for our engine alone."""

    flood: int = 10_000
    single: int = 1_000
    offers: int = 200
    crash: int = 600
    crash_s: float = 20.0
    rounds: int = 2
    work_s: float = 8.0
    engine: int = 20_000
    lanes: int = 100_000


QUICK = Sizes(flood=1_000, single=200, offers=50, crash=0, rounds=1, work_s=3.0, engine=4_000, lanes=10_000)


@dataclass(frozen=True, slots=True)
class Server:
    """The server that all share."""

    url: str
    path: str

    def empty(self) -> None:
        """Forget everything of the system before."""
        ask(self.path, "FLUSHALL SYNC", "SCRIPT FLUSH SYNC", "FUNCTION FLUSH SYNC")

    def memory(self) -> int:
        """Bytes that the data takes, without what clients' connections take."""
        fields = info(self.path)
        return int(fields["used_memory"]) - int(fields["mem_clients_normal"]) - int(fields["mem_aof_buffer"])


async def throughput(server: Server, name: str, sizes: Sizes, *, empty: bool = True) -> dict[str, Any]:
    """Enqueue a flood of one tenant and a few jobs of another, then work them all with one worker process.

    With `empty` the server is emptied first, which is nothing for a shared one.
    """
    if empty:
        server.empty()
    before = server.memory()
    bulk = sizes.flood - sizes.single - 1
    result = await _task(server, name, "enqueue", single=sizes.single, bulk=bulk)
    memory = (server.memory() - before) / (sizes.flood + OTHERS)
    worked = await _task(server, name, "work", jobs=sizes.flood + OTHERS, limit_s=sizes.work_s)
    return result | {"work": worked, "memory": memory, "flood": sizes.flood}


async def latency(server: Server, name: str, sizes: Sizes) -> dict[str, Any]:
    """Milliseconds from the call that enqueues to the handler's first line, on an idle queue, across two processes."""
    server.empty()
    jobs = sizes.offers + 1
    worker = await _start(server, name, "wait", jobs=jobs)
    producer = await _start(server, name, "offer", jobs=jobs)
    try:
        async with asyncio.timeout(_TASK_S):
            assert worker.stdout
            assert producer.stdin
            if (await worker.stdout.readline()).strip() != b"ready":
                raise Missing(await _reason(worker, "wait"))
            producer.stdin.write(b"go\n")
            await producer.stdin.drain()
            return json.loads(await worker.stdout.readline() or b"null") or {}
    except TimeoutError as error:
        raise Missing(f"no latency within {_TASK_S:g} s") from error
    finally:
        await _end(worker, producer)


async def crash(server: Server, name: str, sizes: Sizes, directory: Path) -> dict[str, Any]:
    """Kill a worker in the middle and start another: jobs not done, begun twice, seconds from the kill to the end."""
    server.empty()
    log = directory / f"{name}.log"
    log.touch()
    await _task(server, name, "fill", jobs=sizes.crash)
    options = {"log": str(log), "pause_s": _CRASH_JOB_S, "lease_ms": CRASH_LEASE_MS}
    first = await _start(server, name, "survive", **options)
    second: asyncio.subprocess.Process | None = None
    try:
        await _until(log, sizes.crash // 3, sizes.crash_s, first)
        first.send_signal(signal.SIGKILL)
        killed = time.monotonic()
        second = await _start(server, name, "survive", **options)
        done = await _until(log, sizes.crash, sizes.crash_s, second)
        seconds = time.monotonic() - killed
    finally:
        await _end(*(process for process in (first, second) if process))
    twice = sum(times - 1 for times in _numbers(log, "begin").values())
    return {"left": sizes.crash - done, "twice": twice, "seconds": seconds if done == sizes.crash else None}


async def _until(log: Path, wanted: int, limit_s: float, process: asyncio.subprocess.Process) -> int:
    """How many jobs have ended, once that is `wanted` or the time is over."""
    deadline = time.monotonic() + limit_s
    while True:
        ended = len(_numbers(log, "end"))
        if ended >= wanted or time.monotonic() > deadline:
            return ended
        if process.returncode is not None:
            raise Missing(await _reason(process, "survive"))
        await asyncio.sleep(_POLL_S)


def _numbers(log: Path, what: str) -> Counter[str]:
    """How often each job stands in the log."""
    lines = (line.split() for line in log.read_text().splitlines())
    return Counter(line[1] for line in lines if len(line) == 2 and line[0] == what)


async def _task(server: Server, name: str, task: str, **options: object) -> dict[str, Any]:
    process = await _start(server, name, task, **options)
    try:
        async with asyncio.timeout(_TASK_S):
            output, errors = await process.communicate()
    except TimeoutError as error:
        raise Missing(f"{task} took longer than {_TASK_S:g} s") from error
    finally:
        await _end(process)
    lines = [line for line in output.decode().splitlines() if line.startswith("{")]
    if not lines:
        raise Missing(_last(errors, task))
    return json.loads(lines[-1])


async def _start(server: Server, name: str, task: str, **options: object) -> asyncio.subprocess.Process:
    argument = json.dumps({"url": server.url, "path": server.path, **options})
    return await asyncio.create_subprocess_exec(
        await asyncio.to_thread(python_of, name),
        *("-m", "benchmarks.child", name, task, argument),
        cwd=ROOT,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )


async def _end(*processes: asyncio.subprocess.Process) -> None:
    for process in processes:
        if process.returncode is None:
            try:
                os.kill(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
            await process.wait()


async def _reason(process: asyncio.subprocess.Process, task: str) -> str:
    await _end(process)
    assert process.stderr
    return _last(await process.stderr.read(), task)


def _last(errors: bytes, task: str) -> str:
    lines = [line for line in errors.decode(errors="replace").splitlines() if line.strip()]
    return f"{task} failed: {lines[-1] if lines else 'it said nothing'}"[:200]
