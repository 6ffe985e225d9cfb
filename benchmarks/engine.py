"""What one job costs: microseconds of server and client CPU for claim and settle, and how that grows with lanes.

Run it with `python -m benchmarks.engine`. It starts a Valkey server of its own. The floor is what a bare batched claim
with a fenced finish costs on the same machine, without lanes, limits or counters; the difference is what they cost.
CPU is counted, not the clock on the wall, so a busy machine changes the result little.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from codemojex.engine import claims, ids, jobs, keyspace, limits, settlement
from codemojex.engine.connector import Connector
from codemojex.engine.ids import Minter
from codemojex.engine.jobs import NewJob
from codemojex.engine.outcome import Complete
from codemojex.engine.scripts import Script
from codemojex.engine.settlement import Settlement
from tests.support.valkey import ValkeyServer

LEASE_MS = 60_000

_FLOOR = """
local P = KEYS[1]
for i = 4, #ARGV, 2 do
  local row = P .. 'job:' .. ARGV[i]
  if redis.call('HGET', row, 'attempts') == ARGV[i + 1] then
    redis.call('ZREM', P .. 'active', ARGV[i])
    redis.call('DEL', row)
  end
end
local t = redis.call('TIME')
local deadline, out = t[1] * 1000 + math.floor(t[2] / 1000) + ARGV[2], {}
local ids = redis.call('ZPOPMIN', P .. 'pending', ARGV[1])
for i = 1, #ids, 2 do
  local row = P .. 'job:' .. ids[i]
  local token = redis.call('HINCRBY', row, 'attempts', 1)
  redis.call('HSET', row, 'state', 'active')
  redis.call('ZADD', P .. 'active', deadline, ids[i])
  out[#out + 1] = { ids[i], redis.call('HGET', row, 'payload'), token }
end
return out
"""


@dataclass(frozen=True, slots=True)
class Cost:
    """Per job: microseconds of CPU on both sides, and the jobs that went through in a second of wall time."""

    server_us: float
    client_us: float
    per_second: float

    def __str__(self) -> str:
        return f"server {self.server_us:6.1f} µs   client {self.client_us:6.1f} µs   {self.per_second:8.0f} jobs/s"


async def server_cpu_s(bus: Connector) -> float:
    """The CPU seconds that the server's main thread has used."""
    info = (await bus.execute("INFO", "cpu")).decode()
    fields = dict(line.split(":", 1) for line in info.split() if ":" in line)
    return float(fields["used_cpu_user_main_thread"]) + float(fields["used_cpu_sys_main_thread"])


async def measure(bus: Connector, count: int, work: Callable[[], Awaitable[int]]) -> Cost:
    """Run `work` until it has done `count` jobs."""
    server, client, wall = await server_cpu_s(bus), time.process_time(), time.perf_counter()
    done = 0
    while done < count:
        step = await work()
        assert step, f"only {done} of {count} jobs came"
        done += step
    wall, client = time.perf_counter() - wall, time.process_time() - client
    server = await server_cpu_s(bus) - server
    return Cost(server / done * 1e6, client / done * 1e6, done / wall)


async def fill(bus: Connector, queue: str, count: int, lanes: int) -> None:
    """Admit `count` jobs spread over `lanes` lanes (0: flat)."""
    mint = Minter(1)
    names = [ids.derive("ROM", str(i)) for i in range(lanes)]
    for start in range(0, count, 5000):
        step = range(start, min(start + 5000, count))
        batch = [NewJob(mint.mint("JOB"), b"x" * 100, lane=names[i % lanes] if lanes else None) for i in step]
        await jobs.admit_many(bus, queue, batch)


async def steady(bus: Connector, queue: str, count: int, lanes: int, batch: int) -> Cost:
    """The worker's steady state: settle what is done and claim as many, in one call."""
    await limits.set_rate(bus, queue, 100_000_000, 3_600_000)
    await limits.set_concurrency(bus, queue, 100_000)
    await fill(bus, queue, count + batch, lanes)
    held = list((await claims.claim_many(bus, queue, batch, LEASE_MS)).jobs)

    async def work() -> int:
        nonlocal held
        items = [Settlement(job.id, job.token, Complete()) for job in held]
        _, claimed = await settlement.settle_and_claim(bus, queue, items, batch, LEASE_MS)
        held = list(claimed.jobs)
        return len(items)

    return await measure(bus, count, work)


async def floor(bus: Connector, queue: str, count: int, batch: int) -> Cost:
    """The same work as bare as it can be."""
    import hashlib  # noqa: PLC0415 - only the floor needs a script outside the library

    sha = hashlib.sha1(_FLOOR.encode(), usedforsecurity=False).hexdigest()
    script = Script("floor", _FLOOR, sha, "", "", "", "", "")
    prefix = keyspace.of(queue).prefix
    await fill(bus, queue, count + batch, 0)
    held = await bus.run(script, (prefix,), (batch, LEASE_MS, ""))

    async def work() -> int:
        nonlocal held
        done = [part for job_id, _, token in held for part in (job_id, token)]
        held = await bus.run(script, (prefix,), (batch, LEASE_MS, "", *done))
        return len(done) // 2

    return await measure(bus, count, work)


async def claim_only(bus: Connector, queue: str, lanes: int, count: int, batch: int) -> Cost:
    """Claims alone, from `lanes` lanes that all wait."""
    await fill(bus, queue, max(lanes, count), lanes)

    async def work() -> int:
        return len((await claims.claim_many(bus, queue, batch, LEASE_MS)).jobs)

    return await measure(bus, count, work)


async def admissions(bus: Connector, queue: str, count: int, lanes: int) -> Cost:
    """Admission in batches of 500."""
    mint = Minter(2)
    names = [ids.derive("ROM", str(i)) for i in range(lanes)]

    async def work() -> int:
        batch = [NewJob(mint.mint("JOB"), b"x" * 100, lane=names[i % lanes]) for i in range(500)]
        return len(await jobs.admit_many(bus, queue, batch))

    return await measure(bus, count, work)


async def report(count: int, batch: int, many: int) -> None:
    """Print every figure, one line each."""
    server = ValkeyServer().start()
    bus = await Connector.connect(server.url)
    try:
        print(f"claim + settle of a no-op, {count} jobs, batches of {batch}")
        print(f"  floor, bare           {await floor(bus, 'floor', count, batch)}")
        print(f"  engine, flat          {await steady(bus, 'flat', count, 0, batch)}")
        print(f"  engine, 100 lanes     {await steady(bus, 'lanes', count, 100, batch)}")
        print(f"admission, 100 lanes    {await admissions(bus, 'admit', count, 100)}")
        few = await claim_only(bus, "few", 10, 5000, 10)
        lots = await claim_only(bus, "lots", many, 5000, 10)
        print(f"claim, 10 lanes         {few}")
        print(f"claim, {many} lanes {' ' * (8 - len(str(many)))} {lots}")
        print(f"server cost of a claim from {many} lanes over 10 lanes: {lots.server_us / few.server_us:.2f}")
    finally:
        await bus.close()
        server.close()


def main() -> None:
    """Read the sizes from the command line and report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=20_000)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--lanes", type=int, default=100_000, help="how many lanes the growth is measured to")
    options = parser.parse_args()
    asyncio.run(report(options.jobs, options.batch, options.lanes))


if __name__ == "__main__":
    main()
