"""Rules for verbs that need several calls to the server: flows over two queues, deliveries, repeats.

Such a verb may stay under way while other rules run: it makes one call after another, its model in step with it, and
its client may vanish in between.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from codemojex.engine.errors import WrongState
from codemojex.engine.flows import flows, outbox
from codemojex.engine.flows.flows import Added, Flow
from codemojex.engine.jobs.jobs import Dedup, Duplicate
from codemojex.engine.repeats import repeats as repeat
from codemojex.engine.repeats.recurrence import All, Cron, Every, One, Skip
from codemojex.engine.repeats.repeats import Repeat
from tests.engine.model.machine.both import BY, NAMES, QUEUES
from tests.engine.model.machine.coming import KEYS, WHEN, Coming
from tests.engine.model.machine.story import HOUR, PICK
from tests.engine.model.plain import flows as plain
from tests.engine.model.plain import repeats
from tests.engine.model.wire import Call

CALLS = st.sampled_from([0, 1, 2, 3, 99, 99, 99])
NODES = st.lists(
    st.tuples(PICK, NAMES, st.booleans(), st.booleans(), WHEN),
    min_size=1,
    max_size=4,
)
REPEATS = st.sampled_from(["r1", "r2", "r3"])
SCHEDULES = st.sampled_from([Every(HOUR), Every(HOUR), Every(3 * HOUR), Cron(repeats.YEARLY)])
CATCH_UPS = st.sampled_from([One(), All(2), All(10), Skip(2 * HOUR), Skip(HOUR // 4)])
MOST_UNDER_WAY = 3


@dataclass
class UnderWay:
    """A verb that has calls to make, its model, and the comparison of what they answer."""

    verb: Call[Any]
    model: Call[Any]
    agree: Callable[[Any, Call[Any]], None]
    may_vanish: bool = False

    def go_on(self, calls: int) -> bool:
        """Make so many calls; whether it is over."""
        for _ in range(calls):
            ended = self.verb.step()
            over = self.model.step()
            if self.model.error:
                raise self.model.error
            assert over == ended, f"the engine has {self.verb.result or self.verb.error}, the model {self.model.result}"
            if ended:
                self.agree(self.model.result, self.verb)
                return True
        return False


class Weaving(Coming):
    """What is made of several calls."""

    def __init__(self) -> None:
        super().__init__()
        self.under_way: list[UnderWay] = []
        self.trees: list[tuple[str, Flow]] = []
        self.read: dict[str, dict[str, Repeat]] = {name: {} for name in QUEUES}

    def teardown(self) -> None:
        """Whoever is under way comes to an end, and that is compared as well."""
        if not self.failing:
            while self.under_way:
                self.under_way.pop().go_on(99)
            self.the_server_holds_what_the_model_says()
        super().teardown()

    def _begin(self, work: UnderWay, calls: int) -> None:
        if not work.go_on(calls if len(self.under_way) < MOST_UNDER_WAY else 99):
            self.under_way.append(work)

    @precondition(lambda self: self.under_way)
    @rule(pick=PICK, calls=st.sampled_from([1, 2, 99]), vanish=st.integers(0, 3))
    def go_on(self, pick: int, calls: int, vanish: int) -> None:
        """A verb under way makes more of its calls, or its client is gone for ever."""
        work = self.under_way.pop(pick % len(self.under_way))
        if work.may_vanish and vanish == 0:
            work.verb.give_up()
        elif not work.go_on(calls):
            self.under_way.append(work)

    # flows

    @rule(by=BY, nodes=NODES, name=NAMES, key=KEYS, calls=CALLS)
    def add_flow(
        self, by: Any, nodes: Sequence[tuple[Any, ...]], name: str | None, key: str | None, calls: int
    ) -> None:
        """A tree: each job is a child of one before it, in its queue or the other one."""
        _, q = self.at(by)
        children: list[list[int]] = [[] for _ in range(len(nodes) + 1)]
        for i, (pick, *_) in enumerate(nodes):
            children[pick % (i + 1)].append(i + 1)
        jobs = [self.new(name, "now", Dedup(key, HOUR) if key else None)]
        for i, (_, lane, _, _, when) in enumerate(nodes, 1):
            jobs.append(self.new(lane, "now" if children[i] else when))

        def tree(i: int, queue: str) -> Flow:
            elsewhere, ignore = nodes[i - 1][2:4] if i else (False, False)
            mine = (QUEUES[1] if queue == QUEUES[0] else QUEUES[0]) if elsewhere else queue
            return Flow(jobs[i], [tree(c, mine) for c in children[i]], mine if elsewhere else None, ignore)

        flow = tree(0, q.name)
        self.trees.append((q.name, flow))
        self._add(by[0], q.name, flow, calls)

    @precondition(lambda self: self.trees)
    @rule(client=st.integers(0, 2), pick=PICK, calls=CALLS, what=st.sampled_from(["again", "again", "other", "bulk"]))
    def add_again(self, client: int, pick: int, calls: int, what: str) -> None:
        """The same flow again adds what a client that vanished left out; a flow with other contents is refused."""
        name, flow = self.trees[pick % len(self.trees)]
        if what == "other":
            job = self.new(payload=b"other")
            flow = Flow(type(job)(flow.job.id, job.payload), flow.children)
        if what != "bulk":
            self._add(client, name, flow, calls)
            return
        model = run_model(plain.add(self.world, client, name, flow))
        verdicts = self.do(flows.add_bulk(self.buses[client], name, [flow]))
        if model[0] == "broken":
            assert isinstance(verdicts[0], flows.AdmissionRefused)
        else:
            assert verdicts == [_verdict(model, flow)]

    def _add(self, client: int, name: str, flow: Flow, calls: int) -> None:
        def agree(said: tuple[str, str], verb: Call[Any]) -> None:
            if said[0] == "broken":
                assert isinstance(verb.error, WrongState), verb.error
            else:
                _same(_verdict(said, flow), verb)

        verb = self.begin(flows.add(self.buses[client], name, flow))
        self._begin(UnderWay(verb, Call(plain.add(self.world, client, name, flow)), agree, may_vanish=True), calls)

    @precondition(lambda self: any(q.outbox for q in self.world.queues.values()))
    @rule(limits=st.lists(st.sampled_from([1, 2, 100]), min_size=1, max_size=2), calls=CALLS)
    def deliver(self, limits: list[int], calls: int) -> None:
        """One pump, or a quick one that overtakes a slow one: both have read the same entries."""
        q = max(self.world.queues.values(), key=lambda q: len(q.outbox))
        for client, limit in enumerate(limits):
            verb = self.begin(outbox.deliver(self.buses[client], q.name, limit))
            slow = len(limits) == 2 and client == 0
            self._begin(UnderWay(verb, Call(plain.deliver(q, limit)), _same), 1 + calls % 2 if slow else calls)

    # repeats

    @rule(
        by=BY,
        name=REPEATS,
        schedule=SCHEDULES,
        catch_up=CATCH_UPS,
        lane=NAMES,
        first=st.sampled_from(["", "in", "at"]),
        ends=st.booleans(),
        change=st.booleans(),
    )
    def repeat(  # noqa: PLR0917
        self, by: Any, name: str, schedule: Any, catch_up: Any, lane: str | None, first: str, ends: bool, change: bool
    ) -> None:
        """Register a repeat, or change one."""
        bus, q = self.at(by)
        until = int(q.world.now) + 2 * HOUR if ends else None
        more: dict[str, Any] = {"max_attempts": 3, "timeout_ms": 9000} if lane else {}
        new = Repeat(name, schedule, b"tick" if lane else b"t", lane, catch_up, until, **more)
        if change:
            done = self.do(repeat.update(bus, q.name, new))
            assert done == repeats.update(q, new)
        else:
            when = {"in": {"first_in_ms": self.hour()}, "at": {"first_at_ms": 4_000_000_000_000}}.get(first, {})
            done = self.do(repeat.register(bus, q.name, new, **when))
            assert done == repeats.register(q, new, **when)
        if done:
            self.read[q.name][name] = new

    @precondition(lambda self: any(q.slots for q in self.world.queues.values()))
    @rule(picks=st.lists(PICK, min_size=1, max_size=3), ago=st.integers(0, 4))
    def slots_come(self, picks: list[int], ago: int) -> None:
        """Some slots lie so many hours and a half back; those of cron expressions at a New Year."""
        some = sorted((q.name, name) for q in self.world.queues.values() for name in q.slots)
        for name, which in {some[pick % len(some)] for pick in picks}:
            q = self.world.queues[name]
            slot = int(q.world.now) - ago * HOUR - HOUR // 2 + len(which)
            if "cron" in q.repeats[which]:
                year = datetime.fromtimestamp(q.world.now / 1000, UTC).year
                slot = int(datetime(year - ago, 1, 1, tzinfo=UTC).timestamp() * 1000)
            for home in ("repeat", "repeat_ours"):
                self.wires[0].now("ZADD", f"{self.prefixes[name]}{home}", "XX", slot, which)
            q.slots[which] = slot

    @precondition(lambda self: any(q.ripe(q.slots) for q in self.world.queues.values()))
    @rule(limits=st.lists(st.sampled_from([1, 2, 100]), min_size=1, max_size=2), calls=CALLS)
    def fire(self, limits: list[int], calls: int) -> None:
        """One pump, or a quick one that overtakes a slow one: both have seen the same slots."""
        q = next(q for q in self.world.queues.values() if q.ripe(q.slots))

        def agree(said: dict[str, list[str]], verb: Call[Any]) -> None:
            assert verb.error is None, verb.error
            assert verb.result.jobs == said

        for client, limit in enumerate(limits):
            verb = self.begin(repeat.fire_due(self.buses[client], q.name, limit))
            model = Call(repeats.fire_due(q, limit, self.read[q.name]))
            slow = len(limits) == 2 and client == 0
            self._begin(UnderWay(verb, model, agree, may_vanish=True), 1 if slow else calls)

    @rule(by=BY, name=REPEATS, what=st.sampled_from(["cancel", "advance", "advance"]))
    def end_repeat(self, by: Any, name: str, what: str) -> None:
        bus, q = self.at(by)
        if what == "cancel":
            assert self.do(repeat.cancel(bus, q.name, name)) == repeats.cancel(q, name)
        else:
            assert self.do(repeat.advance(bus, q.name, name)) == repeats.advance(q, name, self.read[q.name])


def run_model(calls: plain.Calls) -> Any:
    call = Call[Any](calls)
    while not call.step():
        pass
    if call.error:
        raise call.error
    return call.result


def _same(said: Any, verb: Call[Any]) -> None:
    assert verb.error is None, verb.error
    assert verb.result == said


def _verdict(said: tuple[str, str], flow: Flow) -> Added | Duplicate:
    if said[0] == "added":
        return _ids(flow)
    return Duplicate(said[1], conflict=said[0] == "conflict")


def _ids(flow: Flow) -> Added:
    return Added(flow.job.id, [_ids(child) for child in flow.children])
