"""`python -m benchmarks.child SYSTEM TASK '{…}'`: does one task of one system and prints its result as a line of JSON.

Tasks: `enqueue`, `work`, `wait` (work for the latency), `offer` (enqueue for it), `fill`, `survive` (work with a log,
to be killed). The server and the probe are the same for every system; the module of the system is the only difference.
"""

from __future__ import annotations

import asyncio
import importlib
import importlib.metadata
import json
import logging
import os
import sys
import time
from typing import Any

from benchmarks.probe import FLOOD, OTHER, OTHERS, Probe, Usage

FILLER = '{"kind":"score","v":1,"codes":["1","2","3","4","5","6"]}'
_OFFER_GAP_S = 0.01


def finish(result: dict[str, Any]) -> None:
    """Print the result and end at once: no system's way to stop is measured, and none may spoil the result."""
    sys.stdout.write(json.dumps(result) + "\n")
    sys.stdout.flush()
    os._exit(0)


async def main(name: str, task: str, options: dict[str, Any]) -> None:
    """Do one task. `options`: `url`, `path`, and what the task needs."""
    module: Any = importlib.import_module(f"benchmarks.peers.with_{name}")
    probe = Probe(
        options["path"],
        options.get("jobs", 0),
        finish,
        pause_s=options.get("pause_s", 0.0),
        log=options.get("log", ""),
        lease_ms=options.get("lease_ms", 0),
        latency=task == "wait",
        limit_s=options.get("limit_s", 60.0),
    )
    system: Any = module.System(options["url"], probe)
    await system.open()
    match task:
        case "enqueue":
            about = {"version": importlib.metadata.version(module.PACKAGE), "settings": module.SETTINGS}
            finish(about | await _enqueue(system, options))
        case "offer":
            await _offer(system, options["jobs"])
        case "fill":
            await system.put_many([str(number) for number in range(options["jobs"])], FLOOD)
        case _:
            await system.work()
            await asyncio.Event().wait()
    finish({})


async def _enqueue(system: Any, options: dict[str, Any]) -> dict[str, Any]:
    """A flood of one tenant, singly and in bulk, and then a few jobs of another."""
    await system.put(f"{FLOOD} {FILLER}", FLOOD)  # connections and scripts are there
    before = Usage.now(options["path"])
    for _ in range(options["single"]):
        await system.put(f"{FLOOD} {FILLER}", FLOOD)
    between = Usage.now(options["path"])
    await system.put_many([f"{FLOOD} {FILLER}"] * options["bulk"], FLOOD)
    after = Usage.now(options["path"])
    for _ in range(OTHERS):
        await system.put(f"{OTHER} {FILLER}", OTHER)
    return {
        "single": between.per_job(before, options["single"]),
        "bulk": after.per_job(between, options["bulk"]),
        "how": system.bulk,
    }


async def _offer(system: Any, count: int) -> None:
    """One job to see that the worker is there, then, when told, one after the other to an idle queue."""
    await system.put(str(time.monotonic_ns()), FLOOD)
    await asyncio.to_thread(sys.stdin.readline)
    for _ in range(count - 1):
        await asyncio.sleep(_OFFER_GAP_S)
        await system.put(str(time.monotonic_ns()), FLOOD)


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    asyncio.run(main(sys.argv[1], sys.argv[2], json.loads(sys.argv[3])))
