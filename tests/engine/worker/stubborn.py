"""A program whose handler ignores that it is cancelled. Run it with a URL, a queue, and `stop` or `cancel`."""

from __future__ import annotations

import asyncio
import sys
import time

from codemojex.engine.jobs.jobs import Job
from codemojex.engine.transport.connector import Connector
from codemojex.engine.worker.worker import Worker, WorkerOptions

OPTIONS = WorkerOptions(concurrency=1, grace_ms=100, unwind_ms=100)


async def stubborn(job: Job) -> None:
    print("begun", flush=True)
    while True:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            continue


def hung(job: Job) -> None:
    print("begun", flush=True)
    time.sleep(600)


async def main(url: str, queue: str, how: str, which: str) -> None:
    def told(name: str, data: dict[str, object]) -> None:
        if name in ("worker.abandoned", "worker.thread_left"):
            print(name, data, flush=True)

    bus = await Connector.connect(url)
    handler = stubborn if which == "stubborn" else hung
    worker = Worker(bus, queue, handler, options=OPTIONS, observe=told)
    running = asyncio.create_task(worker.run())
    await asyncio.sleep(0)
    while not await bus.execute("ZCARD", f"emq:{{{queue}}}:active"):
        await asyncio.sleep(0.02)
    await asyncio.sleep(0.2)
    worker.stop() if how == "stop" else running.cancel()
    await asyncio.wait([running])
    await bus.close()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
