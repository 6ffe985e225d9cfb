"""Rules by which jobs come in and are handed out."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from codemojex.engine.backoff import Exponential, Fixed
from codemojex.engine.jobs import claims, jobs, settlement
from codemojex.engine.jobs.claims import Claimed
from codemojex.engine.jobs.jobs import Dedup, Duplicate, Enqueued, Job, NewJob, Scheduled, Verdict
from codemojex.engine.lanes import lanes, limits
from tests.engine.model.machine.both import BY, LANE_NAMES, LANES, NAMES, QUEUES, Both
from tests.engine.model.machine.story import HOUR, PICK, one_of
from tests.engine.model.plain import claims as plain
from tests.engine.model.plain.admission import admit
from tests.engine.model.plain.limits import configure
from tests.engine.model.plain.state import Queue

LEASE = HOUR
MAX_ATTEMPTS = 2
SOME_DAY = 4_000_000_000_000
WHEN = st.sampled_from(["now", "now", "now", "now", "in an hour", "some day", "expired"])
KEYS = st.sampled_from([None, None, None, "k1", "k2"])
MORE = st.sampled_from(
    [
        {},
        {},
        {"max_attempts": 1},
        {"max_attempts": 4},
        {"timeout_ms": 5000, "trace": "00-1"},
        {"payload": b"long" * 8},
    ]
)
BYTES = st.sampled_from([claims.DEFAULT_BYTES, claims.DEFAULT_BYTES, 2, 33, 40])


class Coming(Both):
    """What comes in, and goes out to workers. `taken` is every attempt ever handed out, by queue."""

    def __init__(self) -> None:
        super().__init__()
        self.taken: dict[str, list[Job]] = {name: [] for name in QUEUES}
        self.loop: asyncio.AbstractEventLoop | None = None

    def teardown(self) -> None:
        if self.loop:
            self.loop.close()
        super().teardown()

    def first_settings(self, default: int | None, weight: int | None, kind: str | None) -> None:
        """Limits of the queue here, from the first line on."""
        bus, q = self.at((0, 0))
        self.do(limits.set_default_lane_limit(bus, q.name, default))
        configure(q, lane_limit=default)
        self.do(lanes.weight(bus, q.name, LANE_NAMES[0], weight))
        if weight:
            q.weights[LANE_NAMES[0]] = weight
        self.budget(bus, q, kind, 12)

    def budget(self, bus: Any, q: Queue, kind: str | None, n: int) -> None:
        if kind == "window":
            self.do(limits.set_rate(bus, q.name, n, HOUR))
            configure(q, limiter="window", max=n, duration=HOUR, rate=None, burst=None)
        elif kind == "bucket":
            self.do(limits.set_bucket(bus, q.name, 0.0001, n))
            configure(q, limiter="bucket", rate=0.0001, burst=n, max=None, duration=None)
        else:
            self.do(limits.clear_rate(bus, q.name))
            configure(q, limiter=None, max=None, duration=None, rate=None, burst=None)

    # admission

    def new(
        self, name: str | None = None, when: str = "now", key: Dedup | None = None, payload: bytes = b"x", **more: Any
    ) -> NewJob:
        later: dict[str, Any] = {}
        if when == "in an hour":
            later["delay_ms"] = self.hour()
        elif when == "some day":
            later["run_at_ms"] = SOME_DAY + self.hour()
        elif when == "expired":
            later["expires_at_ms"] = 1
        if more.get("max_attempts", 1) > 1:
            ms = self.hour()
            later["backoff"] = Exponential(ms, 3 * ms, jitter=False)
        return NewJob(self.id(), payload, lane=name, dedup=key, **later, **more)

    def policy(self) -> settlement.Policy:
        return settlement.Policy(MAX_ATTEMPTS, Fixed(self.hour()))

    @rule(
        by=BY,
        some=st.lists(st.tuples(NAMES, WHEN, KEYS, MORE), max_size=4),
        release=st.sampled_from(["window", "claim"]),
    )
    def admit(self, by: Any, some: list[tuple[str | None, str, str | None, dict[str, Any]]], release: Any) -> None:
        bus, q = self.at(by)
        new = [self.new(n, w, Dedup(k, HOUR, release) if k else None, **more) for n, w, k, more in some]
        self.world.note(by[0], q.name)
        for job, verdict in zip(new, self.do(jobs.admit_many(bus, q.name, new)), strict=True):
            self.admitted(admit(q, job), verdict)

    @rule(by=BY, name=LANES)
    def fill(self, by: Any, name: str) -> None:
        """A lane that is busy: what weights, paces and ceilings are for."""
        bus, q = self.at(by)
        new = [self.new(name, payload=b"long") for _ in range(3)]
        self.world.note(by[0], q.name)
        for job, verdict in zip(new, self.do(jobs.admit_many(bus, q.name, new)), strict=True):
            self.admitted(admit(q, job), verdict)

    @rule(by=BY, how=st.sampled_from(["now", "in", "at", "lane", "admit", "many"]), name=LANES)
    def admit_one(self, by: Any, how: str, name: str) -> None:
        """The verbs for a single job share a batch, which needs an event loop."""
        bus, q = self.at(by)
        self.world.note(by[0], q.name)
        i, ms = self.id(), self.hour()
        job = NewJob(i, b"x")
        verb: Any
        match how:
            case "now":
                verb = jobs.enqueue(bus, q.name, i, b"x")
            case "in":
                verb, job = jobs.enqueue_in(bus, q.name, i, b"x", ms), NewJob(i, b"x", delay_ms=ms)
            case "at":
                day = SOME_DAY + ms
                verb, job = jobs.enqueue_at(bus, q.name, i, b"x", day), NewJob(i, b"x", run_at_ms=day)
            case "lane":
                verb, job = lanes.enqueue(bus, q.name, name, i, b"x"), NewJob(i, b"x", name)
            case "admit":
                verb = jobs.admit(bus, q.name, job)
            case _:
                verb = jobs.enqueue_many(bus, q.name, [(i, b"x")])
        self.noted(verb)
        self.loop = self.loop or asyncio.new_event_loop()
        verdict: Any = self.loop.run_until_complete(verb)
        self.admitted(admit(q, job), verdict[0] if isinstance(verdict, list) else verdict)

    def admitted(self, said: tuple[str, str], verdict: Verdict) -> None:
        expected = {"enqueued": Enqueued(), "scheduled": Scheduled()}
        assert verdict == expected.get(said[0], Duplicate(said[1], conflict=said[0] == "conflict"))

    @precondition(lambda self: self.world.queues[QUEUES[0]].rows)
    @rule(client=st.integers(0, 2), pick=PICK, payload=st.sampled_from([b"x", b"y"]))
    def admit_again(self, client: int, pick: int, payload: bytes) -> None:
        """An id that is there, or was: most often a duplicate or a conflict."""
        bus, q = self.at((client, 0))
        job = NewJob(one_of({*q.rows, *(job.id for job in self.taken[q.name])}, pick), payload)
        self.world.note(client, q.name)
        (verdict,) = self.do(jobs.attempt_many(bus, q.name, [job]))
        self.admitted(admit(q, job), verdict)

    # claims

    @rule(by=BY, n=st.integers(1, 6), max_bytes=BYTES)
    def claim(self, by: Any, n: int, max_bytes: int) -> None:
        bus, q = self.at(by)
        answer = self.do(claims.claim_many(bus, q.name, n, LEASE, max_bytes=max_bytes))
        self.claimed(q, plain.claim(q, n, LEASE, max_bytes), answer)

    @precondition(lambda self: any(q.ring or q.pending or q.schedule for q in self.world.queues.values()))
    @rule(client=st.integers(0, 2), n=st.sampled_from([1, 1, 2, 3, 4, 6, 8]))
    def claim_what_is_there(self, client: int, n: int) -> None:
        """Claims are half of a queue's life: they come more often than one rule of many would."""
        some = [i for i, q in enumerate(self.world.queues.values()) if q.ring or q.pending or q.schedule]
        self.claim((client, some[n % len(some)]), n, claims.DEFAULT_BYTES)

    @rule(by=BY, how=st.sampled_from(["flat", "flat one", "lane", "lane one", "whole", "whole few"]))
    def claim_a_kind(self, by: Any, how: str) -> None:
        bus, q = self.at(by)
        n, mode, most, verb = claims.MAX_CLAIM, how.split(maxsplit=1)[0], float(claims.DEFAULT_BYTES), None
        match how:
            case "flat":
                n, verb = 3, claims.claim_batch(bus, q.name, 3, LEASE)
            case "flat one":
                n, verb = 1, claims.claim(bus, q.name, LEASE)
            case "lane":
                verb = lanes.claim_turn(bus, q.name, LEASE)
            case "lane one":
                n, verb = 1, lanes.claim(bus, q.name, LEASE)
            case "whole":
                verb = lanes.claim_batch(bus, q.name, LEASE)
            case _:
                n, most, verb = 2, 6, lanes.claim_batch(bus, q.name, LEASE, 2, max_bytes=6)
        answer: Any = self.do(verb)
        got = answer if isinstance(answer, list) else [answer] if answer else []
        expected = plain.claim(q, n, LEASE, most, mode)
        assert [job.id for job in got] == expected.jobs
        self.take(q, got)

    @rule(by=BY, n=st.integers(1, 3))
    def claim_for_a_moment(self, by: Any, n: int) -> None:
        """A lease of one millisecond, and two of them pass: real time, as the server counts it."""
        bus, q = self.at(by)
        self.claimed(q, plain.claim(q, n, 1), self.do(claims.claim_many(bus, q.name, n, 1)))
        time.sleep(0.002)

    def claimed(self, q: Queue, expected: plain.Claimed, got: Claimed) -> None:
        assert [job.id for job in got.jobs] == expected.jobs
        assert got.paused == expected.paused
        about(expected.limited, got.limited_ms)
        about(expected.next_due, got.next_due_ms)
        self.take(q, got.jobs)

    def take(self, q: Queue, got: Any) -> None:
        for job in got:
            row = q.rows[job.id]
            assert (job.payload.decode(), job.lane, job.token) == (row["payload"], row.lane, row.token)
            assert (job.failures, job.stalled) == (row.count("failures"), row.count("stalled"))
            assert job.timeout_ms == (row.count("timeout_ms") or None)
            assert job.queue == q.name
            self.taken[q.name].append(job)


def about(said: float | None, got: float | None) -> None:
    """The server answered a little later than the model reckoned; nothing is nothing, and 0 is 0."""
    if not said or not got:
        assert said == got
    else:
        assert max(0, said - 60_000) <= got <= said + 1
