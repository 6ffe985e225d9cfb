"""A worker process that was stopped past its lease and then continued changes nothing that others did meanwhile."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections import defaultdict
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from codemojex.engine.jobs.claims import claim_many
from codemojex.engine.jobs.effects import Effect
from codemojex.engine.jobs.outcome import Complete
from codemojex.engine.jobs.settlement import Settled, Settlement, settle_many
from codemojex.engine.maintenance.recovery import recover
from tests.engine.bench import LEASE, Bench, lane
from tests.engine.load import RAN, ran_key
from tests.engine.worker.worker_process import go_key
from tests.support.waiting import until

LEASE_MS = 600
ROOT = Path(__file__).parents[3]


class Zombie:
    """The process, what it said, and the signals it gets."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self.said: dict[str, set[str]] = defaultdict(set)

    async def listen(self) -> None:
        assert self._process.stdout is not None
        async for line in self._process.stdout:
            event, job_id, *_ = line.decode().split(maxsplit=2)
            self.said[event].add(job_id)

    def signal(self, number: signal.Signals) -> None:
        self._process.send_signal(number)


@pytest.fixture
async def zombie(bench: Bench, valkey_url: str) -> AsyncIterator[Zombie]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.engine.worker.worker_process", valkey_url, bench.queue, str(LEASE_MS)),
        stdout=PIPE,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    zombie = Zombie(process)
    listener = asyncio.create_task(zombie.listen())
    yield zombie
    process.kill()
    await process.wait()
    await listener


async def ran(bench: Bench) -> dict[str, int]:
    found: dict[bytes, bytes] = await bench.bus.execute("HGETALL", ran_key(bench.queue))
    return {key.decode(): int(value) for key, value in found.items()}


async def stopped_past_its_leases(bench: Bench, zombie: Zombie, jobs: list[str]) -> None:
    """The zombie holds all jobs, stops, and others have recovered them."""
    await until(lambda: zombie.said["got"] == set(jobs), "the worker holds every job")
    zombie.signal(signal.SIGSTOP)
    recovered: set[str] = set()

    async def all_recovered() -> bool:
        recovered.update((await recover(bench.bus, bench.queue)).waiting)
        return recovered == set(jobs)

    await until(all_recovered, "the leases lapsed")


@pytest.mark.parametrize("finished", [False, True], ids=["while others work on them", "after others finished them"])
async def test_a_worker_that_wakes_up_past_its_lease_changes_nothing(
    bench: Bench, zombie: Zombie, finished: bool
) -> None:
    jobs = await bench.fill([lane(1), lane(1), lane(2), None, None, None])
    await stopped_past_its_leases(bench, zombie, jobs)
    held = (await claim_many(bench.bus, bench.queue, 10, LEASE)).jobs
    assert {job.id for job in held} == set(jobs)
    done = [Settlement(j.id, j.token, Complete(effect=Effect("ran", (ran_key(bench.queue),), (j.id,)))) for j in held]
    if finished:
        await settle_many(bench.bus, bench.queue, done, effects=(RAN,))
    rows = {job.id: await bench.row(job.id) for job in held}
    await bench.bus.execute("SET", go_key(bench.queue), 1)  # its handlers return as soon as it runs again
    zombie.signal(signal.SIGCONT)

    def heard() -> bool:
        return zombie.said["worker.lease_lost"] | zombie.said["worker.settled"] == set(jobs)

    await until(heard, "the zombie learned that its leases are gone")
    assert {job.id: await bench.row(job.id) for job in held} == rows
    assert await ran(bench) == (dict.fromkeys(jobs, 1) if finished else {})
    await bench.sound()
    if not finished:
        verdicts = await settle_many(bench.bus, bench.queue, done, effects=(RAN,))
        assert all(isinstance(verdict, Settled) for verdict in verdicts)
    assert await ran(bench) == dict.fromkeys(jobs, 1)
    more = await bench.fill([lane(1), None])  # and it works on, as if nothing had been
    await until(lambda: _ran_all(bench, [*jobs, *more]), "the zombie works again")
    assert set((await ran(bench)).values()) == {1}
    await bench.sound()


async def _ran_all(bench: Bench, jobs: list[str]) -> bool:
    return set(await ran(bench)) == set(jobs)
