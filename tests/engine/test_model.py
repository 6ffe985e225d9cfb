"""Any order of any verbs, from several clients: the server holds exactly what the plain model says, after every step.

Every step is compared key by key (rows, backlogs, order of the ring, seats, limits, idempotency keys, flows), claims
job by job in their order, and the engine's audit must be clean. Time moves by scores, so that nothing waits for it.
`CODEMOJEX_MODEL_RUNS` asks for more runs (`make soak`), and a failure is then reduced to its shortest story.
"""

from __future__ import annotations

import asyncio
import copy
import os
from collections.abc import Awaitable, Sequence
from typing import Any, TypeVar

import msgspec
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from codemojex.engine import admin, cancel, claims, flows, jobs, lanes, limits, metrics, recovery, schedule, settlement
from codemojex.engine.audit import audit
from codemojex.engine.connector import Connector
from codemojex.engine.flows import Flow
from codemojex.engine.jobs import Dedup, Duplicate, Enqueued, Job, Scheduled
from codemojex.engine.outcome import Complete, Delay, Discard, GiveBack, Outcome, Park, Retry
from codemojex.engine.scripts import ENGINE
from codemojex.engine.settlement import Gone, Settled, Settlement, Stale

from .bench import LEASE, Bench, lane
from .model import BURST, FAR, MAX_FAILURES, NOW, PAST, Model, Row

T = TypeVar("T")
SOAK = "CODEMOJEX_MODEL_RUNS" in os.environ
RUNS = int(os.environ.get("CODEMOJEX_MODEL_RUNS", "200"))
# Shrinking takes minutes, longer than a test may run.
PHASES = (Phase.generate, Phase.shrink) if SOAK else (Phase.generate,)
STEPS = 60
CLIENTS = 3
WHO = st.integers(0, CLIENTS - 1)
PICK = st.integers(0, 1000)
LANES = st.sampled_from([lane(1), lane(2), lane(3)])
NAMES = st.one_of(st.none(), LANES)
KEYS = st.one_of(st.none(), st.sampled_from(["k1", "k2"]))
OUTCOMES = st.sampled_from(
    [
        Complete(),
        Complete(b"result"),
        Retry("no", 60_000),
        Retry("no", 0),
        Delay(60_000),
        Park(60_000),
        Discard("no"),
        GiveBack(),
    ]
)
MAX_STALLED = 2
SLOW = 0.0001  # per second: what is spent does not come back within a test
FAR_MS = 60_000

# Everything under the queue's prefix in one message: the time, then key, type, value.
DUMP = """
local out = { redis.call('TIME')[1] * 1000 + math.floor(redis.call('TIME')[2] / 1000) }
local read = { string = { 'GET' }, hash = { 'HGETALL' }, zset = { 'ZRANGE', 0, -1, 'WITHSCORES' },
  list = { 'LRANGE', 0, -1 }, set = { 'SMEMBERS' } }
for _, key in ipairs(redis.call('KEYS', ARGV[1] .. '*')) do
  local kind = redis.call('TYPE', key).ok
  local how = read[kind]
  out[#out + 1], out[#out + 2], out[#out + 3] = string.sub(key, #ARGV[1] + 1), kind,
    redis.call(how[1], key, unpack(how, 2))
end
return cmsgpack.pack(out)
"""


class Held(dict[str, Any]):
    """The queue's keys as plain values; what is not there is empty."""

    now: int

    @classmethod
    def read(cls, packed: bytes) -> Held:
        now, *flat = msgspec.msgpack.decode(packed, strict=False)
        self = cls()
        self.now = now
        for key, kind, value in zip(flat[::3], flat[1::3], flat[2::3], strict=True):
            pairs = zip(value[::2], value[1::2], strict=True) if kind in ("hash", "zset") else ()
            plain = {name: float(of) if kind == "zset" else of for name, of in pairs}
            self[key] = plain if kind in ("hash", "zset") else value
        return self


class Queue(RuleBasedStateMachine):
    runner: asyncio.Runner
    buses: Sequence[Connector]
    serial = 0

    def __init__(self) -> None:
        super().__init__()
        Queue.serial += 1
        self.queue = f"m{os.getpid()}.{Queue.serial}"
        self.bus = self.buses[0]
        self.bench = Bench(self.bus, self.queue)
        self.model = Model()
        self.taken: list[Job] = []  # every attempt ever handed out

    def do(self, call: Awaitable[T]) -> T:
        async def run() -> T:
            return await call

        return self.runner.run(run())

    def who(self, number: int) -> tuple[Connector, str]:
        return self.buses[number], self.queue

    def teardown(self) -> None:
        violations = self.do(audit(self.bus, self.queue))
        keys = self.do(self.bus.execute("KEYS", f"{self.bench.space.prefix}*"))
        if keys:
            self.do(self.bus.execute("DEL", *keys))
        assert violations == []

    @initialize(default=st.sampled_from([None, 1, 2]), rate=st.sampled_from([None, ("window", 8), ("bucket", 8)]))
    def begin(self, default: int | None, rate: tuple[str, int] | None) -> None:
        """Stories differ from their first line: most have limits."""
        self.default_limit(default)
        self.rate(rate)

    # admission

    @rule(
        who=WHO,
        some=st.lists(st.tuples(NAMES, st.sampled_from(["now", "now", "now", "late", "expired"]), KEYS), max_size=4),
        release=st.sampled_from(["window", "claim"]),
    )
    def admit(self, who: int, some: list[tuple[str | None, str, str | None]], release: Any) -> None:
        new = [
            self.bench.job(
                lane=name,
                delay_ms=FAR_MS if when == "late" else 0,
                expires_at_ms=1 if when == "expired" else None,
                dedup=Dedup(key, FAR_MS, release) if key else None,
            )
            for name, when, key in some
        ]
        verdicts = self.do(jobs.admit_many(*self.who(who), new))
        for job, (_, when, key), verdict in zip(new, some, verdicts, strict=True):
            row = Row(job.payload, job.lane, expired=when == "expired", dedup=key, release=release if key else "window")
            self._admitted(self.model.admit(job.id, row, FAR if when == "late" else None), verdict)

    def _admitted(self, said: tuple[str, str], verdict: object) -> None:
        expected = {"enqueued": Enqueued(), "scheduled": Scheduled()}
        assert verdict == expected.get(said[0], Duplicate(said[1], conflict=said[0] == "conflict"))

    @precondition(lambda self: self.model.jobs)
    @rule(who=WHO, pick=PICK, payload=st.sampled_from([b"x", b"y"]))
    def admit_again(self, who: int, pick: int, payload: bytes) -> None:
        job_id = self._one_of(self.model.jobs, pick)
        verdict = self.do(jobs.enqueue(*self.who(who), job_id, payload))
        self._admitted(self.model.admit(job_id, Row(payload)), verdict)

    @rule(who=WHO, name=NAMES, children=st.lists(st.tuples(NAMES, st.booleans()), min_size=1, max_size=3))
    def add_flow(self, who: int, name: str | None, children: list[tuple[str | None, bool]]) -> None:
        parent = self.bench.job(lane=name)
        tree = [Flow(self.bench.job(lane=of), (), None, ignore) for of, ignore in children]
        self.do(flows.add(*self.who(who), Flow(parent, tree)))
        self.model.admit(parent.id, Row(parent.payload, name, left=len(tree)))
        for child in tree:
            row = Row(child.job.payload, child.job.lane, parent=parent.id, ignore=child.ignore_failure)
            self.model.admit(child.job.id, row)

    # claims

    @rule(who=WHO, n=st.integers(1, 6))
    def claim(self, who: int, n: int) -> None:
        units = self.model.units()
        answer = self.do(claims.claim_many(*self.who(who), n, LEASE))
        self._claimed(self.model.claim(n), answer.jobs)
        assert answer.paused == self.model.paused
        spent = len(answer.jobs) < n and len(answer.jobs) >= units and self.model.units() < 1
        assert (answer.limited_ms > 0) == (spent and not self.model.paused)

    @precondition(lambda self: self.model.ring or self.model.schedule)
    @rule(who=WHO, n=st.integers(1, 6))
    def claim_what_is_there(self, who: int, n: int) -> None:
        """Claims are half of a queue's life: they come more often than one rule of many would."""
        self.claim(who, n)

    @rule(who=WHO, n=st.integers(1, 4))
    def claim_flat(self, who: int, n: int) -> None:
        answer = self.do(claims.claim_batch(*self.who(who), n, LEASE))
        self._claimed(self.model.claim(n, "flat"), answer)

    @rule(who=WHO, whole=st.booleans())
    def claim_lane(self, who: int, whole: bool) -> None:
        verb = lanes.claim_batch if whole else lanes.claim_turn
        answer = self.do(verb(*self.who(who), LEASE))
        self._claimed(self.model.claim(claims.MAX_CLAIM, "whole" if whole else "lane"), answer)

    @rule(n=st.integers(1, 4), m=st.integers(1, 4))
    def claim_at_once(self, n: int, m: int) -> None:
        """Two clients claim at the same time: the server serves one after the other, either first."""

        async def both() -> tuple[claims.Claimed, claims.Claimed]:
            first, second = (claims.claim_many(*self.who(w), k, LEASE) for w, k in ((1, n), (2, m)))
            return await asyncio.gather(first, second)

        answers = self.do(both())
        got = [[job.id for job in answer.jobs] for answer in answers]
        other = copy.deepcopy(self.model)
        if [self.model.claim(n), self.model.claim(m)] != got:
            self.model = other
            assert [other.claim(m), other.claim(n)] == got[::-1]
        for answer in answers:
            self._take(answer.jobs)

    def _claimed(self, expected: list[str], got: Sequence[Job]) -> None:
        assert [job.id for job in got] == expected
        self._take(got)

    def _take(self, got: Sequence[Job]) -> None:
        for job in got:
            row = self.model.jobs[job.id]
            assert (job.payload, job.lane, job.token) == (row.payload, row.lane, str(row.token))
            assert (job.failures, job.stalled) == (row.failures, row.stalled)
            self.taken.append(job)

    # ends

    @precondition(lambda self: self.model.active)
    @rule(who=WHO, ends=st.lists(st.tuples(PICK, OUTCOMES), min_size=1, max_size=3), n=st.integers(0, 3))
    def settle(self, who: int, ends: list[tuple[int, Outcome]], n: int) -> None:
        held = {job.id: job for job in self.taken if job.id in self.model.active}
        self._settle(who, {self._one_of(held, pick): outcome for pick, outcome in ends}, held, n)

    @precondition(lambda self: self.taken)
    @rule(who=WHO, pick=PICK, outcome=OUTCOMES)
    def settle_any(self, who: int, pick: int, outcome: Outcome) -> None:
        """Any attempt of any time, most of them long over: the fence decides."""
        job = self.taken[pick % len(self.taken)]
        self._settle(who, {job.id: outcome}, {job.id: job}, 0)

    @precondition(lambda self: self._superseded())
    @rule(who=WHO, pick=PICK, outcome=OUTCOMES)
    def settle_late(self, who: int, pick: int, outcome: Outcome) -> None:
        """An attempt whose job went on to another one."""
        late = self._superseded()
        job = late[pick % len(late)]
        self._settle(who, {job.id: outcome}, {job.id: job}, 0)

    def _superseded(self) -> list[Job]:
        rows = self.model.jobs
        return [job for job in self.taken if job.id in rows and job.token != str(rows[job.id].token)]

    def _settle(self, who: int, ends: dict[str, Outcome], held: dict[str, Job], n: int) -> None:
        items = [Settlement(i, held[i].token, outcome) for i, outcome in ends.items()]
        policy = settlement.Policy(MAX_FAILURES)
        verdicts, claimed = self.do(settlement.settle_and_claim(*self.who(who), items, n, LEASE, policy=policy))
        for said, verdict in zip(self.model.settle(items), verdicts, strict=True):
            fenced = {"gone": Gone(), "stale": Stale()}
            assert verdict == fenced.get(said) or verdict == Settled(said)  # type: ignore[arg-type]
        self._claimed(self.model.claim(n) if n else [], claimed.jobs)

    @precondition(lambda self: self.taken)
    @rule(who=WHO, picks=st.lists(PICK, min_size=1, max_size=3))
    def extend(self, who: int, picks: list[int]) -> None:
        leases = {self.taken[pick % len(self.taken)].id: self.taken[pick % len(self.taken)].token for pick in picks}
        renewed = self.do(settlement.renew_many(*self.who(who), list(leases.items()), LEASE))
        assert set(renewed.lost) == {i for i, token in leases.items() if not self.model.extend(i, token)}
        asked = {i for i in leases if i not in renewed.lost and self.model.jobs[i].cancelled}
        assert set(renewed.cancelled) == asked

    # time

    @precondition(lambda self: self.model.active)
    @rule(picks=st.lists(PICK, min_size=1, max_size=3))
    def leases_lapse(self, picks: list[int]) -> None:
        self._past("active", self.model.active, picks)

    @precondition(lambda self: self.model.schedule)
    @rule(picks=st.lists(PICK, min_size=1, max_size=4))
    def jobs_come_due(self, picks: list[int]) -> None:
        self._past("schedule", self.model.schedule, picks)

    @precondition(lambda self: self.model.resting)
    @rule(picks=st.lists(PICK, min_size=1, max_size=3))
    def lanes_have_rested(self, picks: list[int]) -> None:
        for name in self._past("resting", self.model.resting, picks):
            self.do(self.bus.execute("DEL", self.bench.space.key(f"pace:{name}")))
            del self.model.paced[name]

    def _past(self, key: str, times: dict[str, float], picks: list[int]) -> list[str]:
        chosen = sorted({self._one_of(times, pick) for pick in picks})
        for name in chosen:
            self.do(self.bench.raw("ZADD", key, "XX", PAST, name))
            times[name] = PAST
        return chosen

    @precondition(lambda self: self.model.keys)
    @rule(pick=PICK)
    def a_dedup_window_ends(self, pick: int) -> None:
        key = self._one_of(self.model.keys, pick)
        assert self.do(self.bus.execute("DEL", self.bench.space.key(f"de:{key}"))) == 1
        del self.model.keys[key]

    @precondition(lambda self: self.model.spent)
    @rule()
    def the_budget_returns(self) -> None:
        self.do(self.bus.execute("DEL", self.bench.space.key("limiter")))
        self.model.spent = 0

    @rule(who=WHO)
    def promote(self, who: int) -> None:
        assert self.do(schedule.promote(*self.who(who))).jobs == self.model.promote()

    @rule(who=WHO, limit=st.sampled_from([1, 2, 100]))
    def recover(self, who: int, limit: int) -> None:
        answer = self.do(recovery.recover(*self.who(who), limit=limit, max_stalled=MAX_STALLED))
        assert (list(answer.waiting), list(answer.dead)) == self.model.recover(limit, MAX_STALLED)

    @rule(who=WHO, n=st.integers(1, 3))
    def claim_for_a_moment(self, who: int, n: int) -> None:
        """A lease of one millisecond, and two of them pass: real time, as the server counts it."""
        taken = self.do(claims.claim_many(*self.who(who), n, 1)).jobs
        self._claimed(self.model.claim(n), taken)
        self.do(asyncio.sleep(0.003 if taken else 0))
        for job in taken:
            self.model.active[job.id] = NOW

    # limits

    @rule(who=WHO, name=LANES, n=st.one_of(st.none(), st.integers(1, 2)))
    def limit(self, who: int, name: str, n: int | None) -> None:
        self.do(lanes.limit(*self.who(who), name, n))
        self.model.limits.pop(name, None)
        self.model.defaulted.discard(name)
        if n:
            self.model.limits[name] = n
        self.model.visit(name)

    @rule(n=st.one_of(st.none(), st.integers(1, 2)))
    def default_limit(self, n: int | None) -> None:
        self.do(limits.set_default_lane_limit(self.bus, self.queue, n))
        self.model.default_limit = n

    @rule(who=WHO, name=LANES, on=st.booleans())
    def pause_lane(self, who: int, name: str, on: bool) -> None:
        self.do((lanes.pause if on else lanes.resume)(*self.who(who), name))
        (self.model.stopped.add if on else self.model.stopped.discard)(name)
        self.model.visit(name)

    @rule(name=LANES, n=st.one_of(st.none(), st.integers(2, 3)))
    def weigh(self, name: str, n: int | None) -> None:
        self.do(lanes.weight(self.bus, self.queue, name, n))
        self.model.weights.pop(name, None)
        if n:
            self.model.weights[name] = n
        self.model.visit(name)

    @rule(on=st.booleans(), name=NAMES)
    def pace(self, on: bool, name: str | None) -> None:
        self.do(limits.set_lane_rate(self.bus, self.queue, SLOW if on else None, BURST, lane=name))
        if name is None:
            self.model.pace_all = on
        else:
            (self.model.paces.add if on else self.model.paces.discard)(name)
            self.model.visit(name)

    @rule(who=WHO, name=LANES, ms=st.sampled_from([0, FAR_MS]))
    def park(self, who: int, name: str, ms: int) -> None:
        self.do(lanes.park(*self.who(who), name, ms))
        self.model.resting.pop(name, None)
        if ms:
            self.model.resting[name] = FAR
        self.model.visit(name)

    @rule(rate=st.one_of(st.none(), st.tuples(st.sampled_from(["window", "bucket"]), st.integers(2, 8))))
    def rate(self, rate: tuple[str, int] | None) -> None:
        match rate:
            case None:
                self.do(limits.clear_rate(self.bus, self.queue))
            case ("window", n):
                self.do(limits.set_rate(self.bus, self.queue, n, FAR_MS))
            case (_, n):
                self.do(limits.set_bucket(self.bus, self.queue, SLOW, n))
        if (rate and rate[0]) != (self.model.rate and self.model.rate[0]):
            self.model.spent = 0
        self.model.rate = rate

    @rule(n=st.one_of(st.none(), st.none(), st.integers(2, 6)))
    def concurrency(self, n: int | None) -> None:
        self.do(limits.set_concurrency(self.bus, self.queue, n))
        self.model.concurrency = n

    @rule(who=WHO, on=st.sampled_from([True, False, False, False]))
    def pause(self, who: int, on: bool) -> None:
        self.do((admin.pause if on else admin.resume)(*self.who(who)))
        self.model.paused = on

    # an operator's verbs

    @precondition(lambda self: self.model.jobs)
    @rule(who=WHO, pick=PICK, to=LANES)
    def move(self, who: int, pick: int, to: str) -> None:
        job_id = self._one_of(self.model.jobs, pick)
        assert self.do(lanes.move(*self.who(who), job_id, to)) == self.model.move(job_id, to)

    @precondition(lambda self: self.model.jobs)
    @rule(who=WHO, pick=PICK)
    def remove(self, who: int, pick: int) -> None:
        job_id = self._one_of(self.model.jobs, pick)
        assert self.do(admin.remove_job(*self.who(who), job_id))
        self.model.remove(job_id)

    @precondition(lambda self: self.model.jobs)
    @rule(who=WHO, pick=PICK)
    def cancel(self, who: int, pick: int) -> None:
        job_id = self._one_of(self.model.jobs, pick)
        assert self.do(cancel.request(*self.who(who), job_id, "why")).value == self.model.cancel(job_id)

    @precondition(lambda self: any(row.state == "dead" for row in self.model.jobs.values()))
    @rule(who=WHO, pick=PICK)
    def reprocess(self, who: int, pick: int) -> None:
        job_id = self._one_of([i for i, row in self.model.jobs.items() if row.state == "dead"], pick)
        assert self.do(admin.reprocess(*self.who(who), job_id))
        self.model.reprocess(job_id)

    @rule(who=WHO, name=LANES)
    def drain(self, who: int, name: str) -> None:
        assert self.do(lanes.drain(*self.who(who), name)) == self.model.drain(name)

    def _one_of(self, some: Any, pick: int) -> str:
        listed = sorted(some)
        return listed[pick % len(listed)]

    # the comparison

    @invariant()
    def the_server_holds_what_the_model_says(self) -> None:
        prefix, model = self.bench.space.prefix, self.model
        scripts = [ENGINE.script(name) for name in ("audit_jobs", "audit_active", "audit_lanes")]
        rest = [("", *model.jobs), (), tuple(lane(n) for n in (1, 2, 3))]
        looks = [("EVALSHA", script.sha, 1, prefix, 0, *more) for script, more in zip(scripts, rest, strict=True)]
        packed, *complaints = self.do(self.bus.pipeline([("EVAL", DUMP, 1, prefix, prefix), *looks]))
        assert complaints == [[], [], []], complaints
        held = Held.read(packed)
        assert held.get("ring", []) == model.ring
        self._rows(held)
        for key in ("pending", *(f"g:{lane(n)}:pending" for n in (1, 2, 3))):
            name = key[2:-8] if key != "pending" else None
            assert list(held.get(key, {})) == model.backlog(name), key
        dead = sorted(i for i, row in model.jobs.items() if row.state == "dead")
        assert list(held.get("dead", {})) == dead
        for key, times in (("schedule", model.schedule), ("active", model.active), ("resting", model.resting)):
            there = held.get(key, {})
            assert there.keys() == times.keys(), key
            for name, at in there.items():
                assert (at > held.now) == (times[name] == FAR), f"{name} in {key}"
                times[name] = FAR if at > held.now else at
        numbers = {name: int(n) for name, n in held.get("gactive", {}).items()}
        assert numbers == {name: n for name, n in model.seats.items() if n}
        assert {name: int(n) for name, n in held.get("glimit", {}).items()} == model.limits
        assert {name: int(n) for name, n in held.get("gweight", {}).items()} == model.weights
        assert set(held.get("defaulted", ())) == model.defaulted
        assert set(held.get("paused", ())) == model.stopped
        # A bucket is kept as the time until which it is spent; so are the lanes' own.
        spent = {key: float(at) for key, at in held.items() if key == "limiter" or key.startswith("pace:")}
        bucket = model.rate is not None and model.rate[0] == "bucket"
        units = {k: n if k == "limiter" and not bucket else (n - held.now) * SLOW / 1000 for k, n in spent.items()}
        used = {"limiter": model.spent, **{f"pace:{name}": n for name, n in model.paced.items()}}
        assert {k: round(n) for k, n in units.items()} == {k: n for k, n in used.items() if n}
        assert {key[3:]: value for key, value in held.items() if key.startswith("de:")} == model.keys
        total = {name: int(held.get(f"metrics:{name}", {}).get("count", 0)) for name in ("completed", "failed")}
        assert total == {"completed": model.completed, "failed": model.failures}

    def _rows(self, held: Held) -> None:
        found: dict[str, Row] = {}
        for key, value in held.items():
            if not key.startswith("job:") or key.count(":") > 1:
                continue
            left, failed = held.get(f"{key}:dependencies"), held.get(f"{key}:failed", {})
            found[key[4:]] = Row(
                value["payload"].encode(),
                value.get("group"),
                value["state"],
                int(value["attempts"]),
                int(value.get("failures", 0)),
                int(value.get("stalled", 0)),
                "lapsed" in value,
                "expires_at" in value,
                "cancel" in value,
                value.get("dedup"),
                "window" if "dedup" not in value or "dedup_ms" in value else "claim",
                value.get("parent"),
                value.get("parent_policy") == "id",
                None if left is None else int(left),
                {child: result.encode() for child, result in held.get(f"{key}:processed", {}).items()},
                set(failed),
                set(held.get(f"{key}:unsuccessful", {})),
            )
        assert found == self.model.jobs

    @rule()
    def counts_agree(self) -> None:
        counts = self.do(metrics.counts(self.bus, self.queue))
        states = [row.state for row in self.model.jobs.values()]
        assert (counts.pending, counts.active) == (states.count("pending"), states.count("active"))
        assert (counts.scheduled, counts.dead) == (states.count("scheduled"), states.count("dead"))
        assert (counts.completed, counts.failed) == (self.model.completed, self.model.failures)


@pytest.mark.timeout(0 if SOAK else 400)
def test_the_server_holds_what_a_plain_model_says_whatever_the_order(valkey_url: str) -> None:
    with asyncio.Runner() as runner:

        class Here(Queue):
            pass

        async def connect() -> list[Connector]:
            buses = [await Connector.connect(valkey_url) for _ in range(CLIENTS)]
            for name in ("audit_jobs", "audit_active", "audit_lanes"):
                await buses[0].teach(ENGINE.script(name))
            return buses

        async def close() -> None:
            for bus in Here.buses:
                await bus.close()

        Here.runner, Here.buses = runner, runner.run(connect())
        try:
            run_state_machine_as_test(
                Here,
                settings=settings(
                    max_examples=RUNS,
                    stateful_step_count=STEPS,
                    deadline=None,
                    suppress_health_check=list(HealthCheck),
                    database=None,
                    phases=PHASES,
                ),
            )
        finally:
            runner.run(close())
