"""What the tests of flows share: trees in a line, the end of a child, and a look at a parent."""

from __future__ import annotations

from codemojex.engine.flows import flows
from codemojex.engine.flows.flows import Added, Flow
from codemojex.engine.jobs import claims, settlement
from codemojex.engine.jobs.jobs import Job
from codemojex.engine.jobs.outcome import Complete, Discard, GiveBack, Outcome
from tests.engine.bench import LEASE, Bench


def node(
    bench: Bench, *children: Flow, queue: str | None = None, ignore: bool = False, lane: str | None = None
) -> Flow:
    """A job of `bench` that waits for `children`."""
    return Flow(bench.job(lane=lane), children, queue, ignore)


def there(bench: Bench, name: str) -> Bench:
    """A bench for another queue of the same test."""
    return Bench(bench.bus, f"{bench.queue}.{name}")


async def add(bench: Bench, flow: Flow) -> Added:
    added = await flows.add(bench.bus, bench.queue, flow)
    assert isinstance(added, Added)
    return added


async def held(bench: Bench, job_id: str) -> Job:
    """Claim until the job is in hand, and give back what else came."""
    found, others = None, list[Job]()
    while not found and (jobs := (await claims.claim_many(bench.bus, bench.queue, 1, LEASE)).jobs):
        found = next((job for job in jobs if job.id == job_id), None)
        others += [job for job in jobs if job.id != job_id]
    for job in others:
        await settle(bench, job, GiveBack())
    assert found, f"{job_id} is not claimable"
    return found


async def end(bench: Bench, job_id: str, outcome: Outcome | None = None) -> None:
    job = await held(bench, job_id)
    await settle(bench, job, outcome)


async def settle(bench: Bench, job: Job, outcome: Outcome | None = None) -> None:
    item = settlement.Settlement(job.id, job.token, outcome or Complete())
    (verdict,) = await settlement.settle_many(bench.bus, bench.queue, [item])
    assert isinstance(verdict, settlement.Settled)


async def die(bench: Bench, job_id: str, error: str = "boom") -> None:
    await end(bench, job_id, Discard(error))


async def state(bench: Bench, job_id: str) -> str | None:
    found = await bench.raw("HGET", f"job:{job_id}", "state")
    return found.decode() if found else None


async def left(bench: Bench, job_id: str) -> int:
    return await flows.dependencies(bench.bus, bench.queue, job_id)


async def sweep(bench: Bench, limit: int = 100) -> int:
    return (await flows.deliver(bench.bus, bench.queue, limit)).entries


async def outbox(bench: Bench) -> list[bytes]:
    return await bench.raw("LRANGE", "flow:outbox", 0, -1)
