"""`python -m benchmarks [JOBS]`: how fast jobs are admitted, worked and handed over, printed as a table.

One process, one server, real settings. The figures say what this machine does today; they are no promise, and nothing
compares them with other systems.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from pathlib import Path

from codemojex.embedded import embedded_valkey
from codemojex.engine import ids, jobs
from codemojex.engine.connector import Connector
from codemojex.engine.ids import Minter
from codemojex.engine.jobs import Job, NewJob
from codemojex.engine.worker import Worker, WorkerOptions

DEADLINE_S = 120.0
BATCH = 500
HAND_OVERS = 500
PAYLOAD = b'{"kind":"score","v":1,"codes":["1","2","3","4","5","6"]}'


async def main(count: int) -> None:
    """Run every measurement over `count` jobs and print one line each."""
    with tempfile.TemporaryDirectory(prefix="cmx-bench-") as directory:
        async with embedded_valkey(Path(directory)) as url, asyncio.timeout(DEADLINE_S):
            bus = await Connector.connect(url)
            mint = Minter(1)
            try:
                print(f"{count} jobs, append-only file every second, one process\n")
                for lanes in (1, 50):
                    queue = f"bench-{lanes}"
                    names = [ids.derive("ROM", str(number)) for number in range(lanes)]
                    rate = await _admit(bus, queue, mint, names, count)
                    _show(f"admit in batches of {BATCH}, {lanes} lane(s)", f"{rate:>9,.0f} jobs/s")
                    rate = await _work(bus, queue, count)
                    _show(f"claim, handle, settle, {lanes} lane(s)", f"{rate:>9,.0f} jobs/s")
                middle, late = await _hand_over(bus, mint)
                _show("admission to handler on an idle queue, median", f"{middle:>9.2f} ms")
                _show("admission to handler on an idle queue, 99 %", f"{late:>9.2f} ms")
            finally:
                await bus.close()


async def _admit(bus: Connector, queue: str, mint: Minter, lanes: list[ids.BrandedId], count: int) -> float:
    waiting = [NewJob(mint.mint("JOB"), PAYLOAD, lane=lanes[number % len(lanes)]) for number in range(count)]
    started = time.perf_counter()
    for start in range(0, count, BATCH):
        await jobs.admit_many(bus, queue, waiting[start : start + BATCH])
    return count / (time.perf_counter() - started)


async def _work(bus: Connector, queue: str, count: int) -> float:
    done = 0

    async def handle(batch: list[Job]) -> list[None]:
        nonlocal done
        done += len(batch)
        if done >= count:
            worker.stop()
        return [None] * len(batch)

    worker = Worker(bus, queue, batch_handler=handle, options=WorkerOptions(concurrency=64, pump=False))
    started = time.perf_counter()
    await worker.run()
    return count / (time.perf_counter() - started)


async def _hand_over(bus: Connector, mint: Minter) -> tuple[float, float]:
    """Milliseconds from the call of `admit` to the start of the handler: median and 99th percentile."""
    arrived = asyncio.Event()
    taken: list[float] = []

    async def handle(_job: Job) -> None:
        taken.append(time.perf_counter())
        arrived.set()

    async def offer() -> list[float]:
        waits: list[float] = []
        for _ in range(HAND_OVERS):
            arrived.clear()
            started = time.perf_counter()
            await jobs.admit(bus, "bench-idle", NewJob(mint.mint("JOB"), PAYLOAD))
            await arrived.wait()
            waits.append((taken[-1] - started) * 1000)
        return sorted(waits)

    worker = Worker(bus, "bench-idle", handle)
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(worker.run())
        waits = await offer()
        worker.stop()
    return waits[len(waits) // 2], waits[len(waits) * 99 // 100]


def _show(what: str, figure: str) -> None:
    print(f"  {what:<52}{figure}", flush=True)


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else 20_000))
