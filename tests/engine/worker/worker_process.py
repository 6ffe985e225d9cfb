"""A worker in a process of its own, for tests that stop it: `python -m tests.engine.worker.worker_process`.

Its handler says on standard output what it got and waits until the key `test:{queue}:go` exists.
"""

from __future__ import annotations

import asyncio
import sys

from codemojex.engine.jobs.effects import Effect
from codemojex.engine.jobs.jobs import Job
from codemojex.engine.jobs.outcome import Complete
from codemojex.engine.transport.connector import Connector
from codemojex.engine.worker.worker import Worker, WorkerOptions
from tests.engine.load import RAN, ran_key


def go_key(queue: str) -> str:
    return f"test:{{{queue}}}:go"


async def main(url: str, queue: str, lease_ms: int) -> None:
    bus = await Connector.connect(url)

    async def handle(job: Job) -> Complete:
        print("got", job.id, flush=True)
        while not await bus.execute("EXISTS", go_key(queue)):
            await asyncio.sleep(0.02)
        return Complete(effect=Effect("ran", (ran_key(queue),), (job.id,)))

    def observe(event: str, data: dict[str, object]) -> None:
        if event in ("worker.lease_lost", "worker.settled"):
            print(event, data["job"], data.get("verdict", ""), flush=True)

    options = WorkerOptions(concurrency=8, lease_ms=lease_ms, pump=False, beat_ms=200)
    await Worker(bus, queue, handle, options=options, effects=(RAN,), observe=observe).run()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
