"""Any order of commands keeps the books: a plain model and the audit agree after every step."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from dataclasses import dataclass
from typing import TypeVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from codemojex.engine import admin, lanes, limits, metrics, recovery, schedule, settlement
from codemojex.engine.connector import Connector
from codemojex.engine.jobs import Job
from codemojex.engine.outcome import Complete, Delay, Discard, GiveBack, Outcome, Park, Retry
from codemojex.engine.settlement import Settled, Settlement

from .bench import LEASE, Bench, lane

T = TypeVar("T")
NAMES = st.sampled_from([None, lane(1), lane(2), lane(3)])
LANES = st.sampled_from([lane(1), lane(2), lane(3)])
OUTCOMES = st.sampled_from(
    [Complete(), Retry("no", 60_000), Retry("no", 0), Delay(60_000), Park(60_000), Discard("no"), GiveBack()]
)
MAX_FAILURES = 2
MAX_STALLED = 2


@dataclass
class Known:
    """What the model knows of a job that exists."""

    lane: str | None
    state: str = "pending"
    token: int = 0
    failures: int = 0
    stalled: int = 0


class Queue(RuleBasedStateMachine):
    url = ""
    serial = 0

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        Queue.serial += 1
        self.bench = Bench(self.do(Connector.connect(self.url)), f"i{Queue.serial}.{id(self)}")
        self.jobs: dict[str, Known] = {}
        self.held: dict[str, Job] = {}
        self.old: list[Job] = []
        self.completed = 0
        self.limits: dict[str, int] = {}
        self.paused = False

    def do(self, call: Awaitable[T]) -> T:
        async def run() -> T:
            return await call

        return self.runner.run(run())

    def teardown(self) -> None:
        self.do(self.bench.bus.close())
        self.runner.close()

    @rule(names=st.lists(NAMES, min_size=1, max_size=4), late=st.booleans())
    def admit(self, names: list[str | None], late: bool) -> None:
        new = [self.bench.job(lane=name, delay_ms=60_000 if late else 0) for name in names]
        self.do(self.bench.put(*new))
        for job in new:
            self.jobs[job.id] = Known(job.lane, "scheduled" if late else "pending")

    @rule(n=st.integers(1, 5))
    def claim(self, n: int) -> None:
        self._claimed(self.do(self.bench.claim(n)).jobs)

    @rule(whole=st.booleans())
    def claim_lane(self, whole: bool) -> None:
        verb = lanes.claim_batch if whole else lanes.claim_turn
        taken = self.do(verb(self.bench.bus, self.bench.queue, LEASE))
        assert len({job.lane for job in taken}) <= 1
        self._claimed(taken)

    def _claimed(self, taken: object) -> None:
        assert not (taken and self.paused)
        for job in taken:  # type: ignore[attr-defined]
            known = self.jobs[job.id]
            # What was due with no delay came back inside the claim.
            assert known.state in ("pending", "due")
            known.state, known.token = "active", known.token + 1
            assert (job.token, job.lane) == (str(known.token), known.lane)
            assert (job.failures, job.stalled) == (known.failures, known.stalled)
            self.held[job.id] = job

    @precondition(lambda self: self.held)
    @rule(data=st.data(), n=st.integers(0, 3))
    def settle(self, data: st.DataObject, n: int) -> None:
        some = data.draw(st.lists(st.sampled_from(sorted(self.held)), min_size=1, max_size=3, unique=True))
        outcomes = {job_id: data.draw(OUTCOMES) for job_id in some}
        items = [Settlement(i, self.held[i].token, outcome) for i, outcome in outcomes.items()]
        policy = settlement.Policy(MAX_FAILURES)
        verdicts, claimed = self.do(
            settlement.settle_and_claim(self.bench.bus, self.bench.queue, items, n, LEASE, policy=policy)
        )
        for (job_id, outcome), verdict in zip(outcomes.items(), verdicts, strict=True):
            assert verdict == Settled(self._settled(job_id, outcome))
            self.old.append(self.held.pop(job_id))
        self._claimed(claimed.jobs)

    def _settled(self, job_id: str, outcome: Outcome) -> settlement.State:
        known = self.jobs[job_id]
        match outcome:
            case Complete():
                del self.jobs[job_id]
                self.completed += 1
                return "completed"
            case Discard():
                known.state = "dead"
            case Retry(delay_ms=ms):
                known.failures += 1
                known.state = "dead" if known.failures >= MAX_FAILURES else "due" if ms == 0 else "scheduled"
            case Delay():
                known.state = "scheduled"
            case Park():
                known.state = "pending" if known.lane else "scheduled"
            case GiveBack():
                known.state = "pending"
        return "scheduled" if known.state == "due" else known.state  # type: ignore[return-value]

    @precondition(lambda self: self.old)
    @rule(data=st.data(), outcome=OUTCOMES)
    def settle_late(self, data: st.DataObject, outcome: Outcome) -> None:
        job = data.draw(st.sampled_from(self.old))
        known = self.jobs.get(job.id)
        verdict = self.do(self.bench.settle(job, outcome, settlement.Policy(MAX_FAILURES)))
        if known is None:
            assert verdict == settlement.Gone()
        elif known.token != int(job.token) or known.state not in ("pending", "active"):
            # A retry without delay may wait in the schedule or, after a promotion, in its lane.
            assert verdict == settlement.Stale() or known.state == "due"
            if verdict != settlement.Stale():
                self._settled(job.id, outcome)
        else:
            assert verdict == Settled(self._settled(job.id, outcome))

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def lapse(self, data: st.DataObject) -> None:
        job = self.held.pop(data.draw(st.sampled_from(sorted(self.held))))
        self.do(self.bench.lapse(job))
        self.do(recovery.recover(self.bench.bus, self.bench.queue, max_stalled=MAX_STALLED))
        known = self.jobs[job.id]
        known.stalled += 1
        known.state = "dead" if known.stalled >= MAX_STALLED else "pending"
        self.old.append(job)

    @rule()
    def time_passes(self) -> None:
        for job_id, known in self.jobs.items():
            if known.state == "scheduled":
                self.do(self.bench.due(job_id))
                known.state = "pending"
            elif known.state == "due":
                known.state = "pending"
        for name in self.do(self.bench.raw("ZRANGE", "resting", 0, -1)):
            self.do(self.bench.rested(name.decode()))
        self.do(schedule.promote(self.bench.bus, self.bench.queue))

    @rule(name=LANES, n=st.one_of(st.none(), st.integers(1, 2)))
    def limit(self, name: str, n: int | None) -> None:
        self.do(lanes.limit(self.bench.bus, self.bench.queue, name, n))
        self.limits.pop(name, None)
        if n:
            self.limits[name] = n

    @rule(n=st.one_of(st.none(), st.integers(1, 2)))
    def default_limit(self, n: int | None) -> None:
        self.do(limits.set_default_lane_limit(self.bench.bus, self.bench.queue, n))

    @rule(name=LANES, on=st.booleans())
    def pause_lane(self, name: str, on: bool) -> None:
        self.do((lanes.pause if on else lanes.resume)(self.bench.bus, self.bench.queue, name))

    @rule(name=LANES, n=st.one_of(st.none(), st.integers(1, 3)))
    def weigh(self, name: str, n: int | None) -> None:
        self.do(lanes.weight(self.bench.bus, self.bench.queue, name, n))

    @rule(rate=st.sampled_from([None, 0.01]), name=st.one_of(st.none(), LANES))
    def pace(self, rate: float | None, name: str | None) -> None:
        self.do(limits.set_lane_rate(self.bench.bus, self.bench.queue, rate, 2, lane=name))

    @rule(name=LANES, ms=st.sampled_from([0, 60_000]))
    def park(self, name: str, ms: int) -> None:
        self.do(lanes.park(self.bench.bus, self.bench.queue, name, ms))

    @rule(on=st.booleans())
    def pause(self, on: bool) -> None:
        self.do((admin.pause if on else admin.resume)(self.bench.bus, self.bench.queue))
        self.paused = on

    @precondition(lambda self: self.jobs)
    @rule(data=st.data(), to=LANES)
    def move(self, data: st.DataObject, to: str) -> None:
        job_id = data.draw(st.sampled_from(sorted(self.jobs)))
        if self.do(lanes.move(self.bench.bus, self.bench.queue, job_id, to)) == "moved":
            self.jobs[job_id].lane = to

    @precondition(lambda self: self.jobs)
    @rule(data=st.data())
    def remove(self, data: st.DataObject) -> None:
        job_id = data.draw(st.sampled_from(sorted(self.jobs)))
        assert self.do(admin.remove_job(self.bench.bus, self.bench.queue, job_id))
        del self.jobs[job_id]
        if job_id in self.held:
            self.old.append(self.held.pop(job_id))

    @precondition(lambda self: any(known.state == "dead" for known in self.jobs.values()))
    @rule(data=st.data())
    def reprocess(self, data: st.DataObject) -> None:
        job_id = data.draw(st.sampled_from(sorted(i for i, known in self.jobs.items() if known.state == "dead")))
        assert self.do(admin.reprocess(self.bench.bus, self.bench.queue, job_id))
        known = self.jobs[job_id]
        known.state, known.failures, known.stalled = "pending", 0, 0

    @rule(name=LANES)
    def drain(self, name: str) -> None:
        self.do(lanes.drain(self.bench.bus, self.bench.queue, name))
        for job_id in [i for i, known in self.jobs.items() if known.lane == name and known.state in ("pending", "due")]:
            # A retry without delay that was not promoted yet stands in the schedule and stays.
            if self.do(admin.get_job(self.bench.bus, self.bench.queue, job_id)) is None:
                del self.jobs[job_id]

    @invariant()
    def books_agree(self) -> None:
        self.do(self.bench.sound())
        counts = self.do(metrics.counts(self.bench.bus, self.bench.queue))
        states = [known.state for known in self.jobs.values()]
        assert counts.active == states.count("active") == len(self.held)
        assert counts.dead == states.count("dead")
        assert counts.pending + counts.scheduled == len(states) - counts.active - counts.dead
        assert counts.completed == self.completed


@pytest.mark.parametrize("round_", range(2))
def test_random_interleavings_keep_the_books(valkey_url: str, round_: int) -> None:
    class Here(Queue):
        url = valkey_url

    run_state_machine_as_test(
        Here,
        settings=settings(
            max_examples=10,
            stateful_step_count=40,
            deadline=None,
            suppress_health_check=list(HealthCheck),
            database=None,
        ),
    )
