"""What one job costs our engine: microseconds of server and client CPU, and how that grows with lanes and limits.

The floor is what a bare batched claim with a fenced finish costs on the same machine, without lanes, limits or
counters; the difference is what they cost. CPU is counted, not the clock on the wall, so a busy machine changes the
result little.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from codemojex.engine import ids, keyspace
from codemojex.engine.ids import Minter
from codemojex.engine.jobs import claims, jobs, settlement
from codemojex.engine.jobs.jobs import NewJob
from codemojex.engine.jobs.outcome import Complete
from codemojex.engine.jobs.settlement import Settlement
from codemojex.engine.lanes import limits
from codemojex.engine.scripts import Script
from codemojex.engine.transport.connector import Connector

LEASE_MS = 60_000
BATCH = 32

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


async def steady(bus: Connector, queue: str, count: int, lanes: int, batch: int, *, limited: bool = True) -> Cost:
    """The worker's steady state: settle what is done and claim as many, in one call."""
    if limited:
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


async def costs(url: str, *, jobs: int, many: int) -> dict[str, Cost]:
    """Measure everything over `jobs` jobs each; claims are compared between 10 and `many` lanes."""
    bus = await Connector.connect(url)
    try:
        return {
            "floor": await floor(bus, "floor", jobs, BATCH),
            "flat": await steady(bus, "flat", jobs, 0, BATCH),
            "lanes": await steady(bus, "lanes", jobs, 100, BATCH),
            "unlimited": await steady(bus, "unlimited", jobs, 100, BATCH, limited=False),
            "admission": await admissions(bus, "admission", jobs, 100),
            "few": await claim_only(bus, "few", 10, jobs // 4, 10),
            "many": await claim_only(bus, "many", many, jobs // 4, 10),
        }
    finally:
        await bus.close()


def table(found: Mapping[str, Cost], many: int) -> str:
    """The figures and their ratios, one line each."""
    titles = {
        "floor": "claim and settle, bare",
        "flat": "claim and settle, flat",
        "lanes": "claim and settle, 100 lanes",
        "unlimited": "the same without limits",
        "admission": "admission in batches of 500",
        "few": "claims of 10 alone, 10 lanes",
        "many": f"the same, {many:,} lanes",
    }
    lines = [
        f"| Our engine alone, in batches of {BATCH} | server µs per job | client µs per job | jobs/s |",
        "|---|--:|--:|--:|",
        *(
            f"| {title} | {found[name].server_us:.1f} | {found[name].client_us:.1f} | {found[name].per_second:,.0f} |"
            for name, title in titles.items()
        ),
        "",
        f"- 100 lanes over bare: {found['lanes'].server_us / found['floor'].server_us:.2f} of the server's time",
        f"- with the limits over without: {found['lanes'].server_us / found['unlimited'].server_us:.2f}",
        f"- {many:,} lanes over 10: {found['many'].server_us / found['few'].server_us:.2f}",
    ]
    return "\n".join(lines)
