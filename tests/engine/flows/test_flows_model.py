"""Whatever the order of ends, deaths, lapses, deliveries and repeated calls: a flow ends as its jobs' fates say."""

from __future__ import annotations

import random

import pytest

from codemojex.engine.flows import flows
from codemojex.engine.flows.flows import Flow
from codemojex.engine.inspection import admin
from codemojex.engine.jobs.jobs import Duplicate
from codemojex.engine.jobs.outcome import Complete, Discard, GiveBack
from codemojex.engine.maintenance import recovery
from tests.engine.bench import Bench, lane
from tests.engine.flow_bench import add, settle, state, sweep, there


class Story:
    """A random tree over three queues, and the fate that chance gives to each of its jobs."""

    def __init__(self, bench: Bench, seed: int) -> None:
        self.chance = random.Random(seed)
        self.benches = [bench, there(bench, "b"), there(bench, "c")]
        self.place: dict[str, Bench] = {}
        self.fate: dict[str, bool] = {}  # does the job complete when it runs?
        self.flow = self._tree(bench, 1)

    def _tree(self, bench: Bench, depth: int) -> Flow:
        chance = self.chance
        width = chance.randint(1, 3) if depth == 1 else chance.choice([0, 0, 1, 2]) if depth < 5 else 0
        name = chance.choice([None, lane(1), lane(2)])
        flow = Flow(
            self.benches[0].job(lane=name),
            [self._tree(chance.choice(self.benches), depth + 1) for _ in range(width)],
            bench.queue,
            chance.random() < 0.5,
        )
        self.place[flow.job.id], self.fate[flow.job.id] = bench, chance.random() < 0.8
        return flow

    async def step(self) -> bool:
        """Something happens; whether there was anything to do."""
        moved = 0
        for bench in self.chance.sample(self.benches, 3):
            for job in (await bench.claim(self.chance.randint(1, 3))).jobs:
                moved += 1
                match self.chance.randrange(6):
                    case 0:
                        await settle(bench, job, GiveBack())
                    case 1:
                        await bench.lapse(job)
                        await recovery.recover(bench.bus, bench.queue, max_stalled=99)
                    case 2:
                        await bench.lapse(job)
                        await recovery.recover(bench.bus, bench.queue, max_stalled=99)
                        await self._end(bench, job)
                    case _:
                        await self._end(bench, job)
            if self.chance.random() < 0.5:
                moved += await sweep(bench, self.chance.randint(1, 3))
            else:
                moved += await bench.raw("LLEN", "flow:outbox")
        return moved > 0

    async def _end(self, bench: Bench, job: object) -> None:
        fate = self.fate[job.id]  # type: ignore[attr-defined]
        outcome = Complete(job.id.encode()) if fate else Discard("fate")  # type: ignore[attr-defined]
        await settle(bench, job, outcome)  # type: ignore[arg-type]

    def ends_well(self, flow: Flow) -> bool:
        fates = [self.ends_well(child) or child.ignore_failure for child in flow.children]
        return all(fates) and self.fate[flow.job.id]

    def runs(self, flow: Flow) -> bool:
        return all(self.ends_well(child) or child.ignore_failure for child in flow.children)

    async def check(self, flow: Flow) -> None:
        """At the end: completed jobs are gone, others dead, and a parent that never ran says because of whom."""
        found = await state(self.place[flow.job.id], flow.job.id)
        assert found == (None if self.ends_well(flow) else "dead"), flow.job.id
        bench = self.place[flow.job.id]
        if flow.children and not self.ends_well(flow):
            blamed = {c.job.id for c in flow.children if not self.ends_well(c) and not c.ignore_failure}
            assert set(await flows.failures(bench.bus, bench.queue, flow.job.id)) == blamed
            ignored = {c.job.id for c in flow.children if not self.ends_well(c) and c.ignore_failure}
            assert set(await flows.ignored_failures(bench.bus, bench.queue, flow.job.id)) == ignored
            values = await flows.children_values(bench.bus, bench.queue, flow.job.id)
            assert values == {c.job.id: c.job.id.encode() for c in flow.children if self.ends_well(c)}
        for child in flow.children:
            await self.check(child)


@pytest.mark.parametrize("seed", range(12))
async def test_a_flow_ends_as_the_fates_of_its_jobs_say(bench: Bench, seed: int) -> None:
    story = Story(bench, seed)
    await add(bench, story.flow)
    while await story.step():
        for each in story.benches:
            await each.sound()
        if await admin.get_job(bench.bus, bench.queue, story.flow.job.id):
            assert await flows.add(bench.bus, bench.queue, story.flow) == Duplicate(story.flow.job.id)
    await story.check(story.flow)
