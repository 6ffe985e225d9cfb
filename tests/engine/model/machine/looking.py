"""Rules that only read: each answer is what the model knows, and nothing changes."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import rule

from codemojex.engine.errors import AtCeiling
from codemojex.engine.flows import flows
from codemojex.engine.inspection import admin, metrics
from codemojex.engine.jobs import progress, registry
from codemojex.engine.lanes import lanes, limits
from codemojex.engine.repeats import repeats
from tests.engine.model.machine.both import BY, LANE_NAMES, LANES
from tests.engine.model.machine.coming import about
from tests.engine.model.machine.story import PICK
from tests.engine.model.machine.weaving import Weaving
from tests.engine.model.plain import claims
from tests.engine.model.plain import limits as budgets
from tests.engine.model.plain.state import Queue, Row

STATES = ("pending", "active", "scheduled", "dead", "awaiting_children")


class Looking(Weaving):
    """Reading."""

    @rule(by=BY)
    def tend(self, by: Any) -> None:
        """A pump's visit finds every lane in order."""
        bus, q = self.at(by)
        assert self.do(lanes.tend(bus, q.name)) == []
        self.wires[0].now("DEL", f"{self.prefixes[q.name]}tended")  # how far it came is no matter of the model

    @rule(by=BY)
    def look_at_counts(self, by: Any) -> None:
        bus, q = self.at(by)
        counts = self.do(metrics.counts(bus, q.name))
        states = [row.state for row in q.rows.values()]
        found = (counts.pending, counts.active, counts.scheduled, counts.dead)
        assert found == tuple(states.count(state) for state in STATES[:4])
        assert (counts.completed, counts.failed) == (q.totals["completed"], q.totals["failed"])
        assert (counts.flat, counts.paused, counts.lanes_truncated) == (len(q.pending), q.stopped, False)
        assert counts.lanes == sum(bool(some) for some in q.lanes.values())
        assert counts.lanes_serviceable == len(q.ring)
        assert (counts.lanes_paused, counts.lanes_resting) == (len(q.paused), len(q.resting))
        assert counts.lanes_active == sum(n > 0 for n in q.seats.values())
        assert (counts.outbox, counts.parents) == (len(q.outbox), states.count("awaiting_children"))
        assert (counts.oldest_parent_age_ms is None) == (not q.parents)
        assert (counts.oldest_age_ms is None) == (not states.count("pending"))
        assert (counts.overdue_ms > 0) == any(at < q.world.now for at in q.active.values())
        names = ["pending", "active", "schedule", "dead", "completed", "failed"]
        sizes = [len(q.pending), len(q.active), len(q.schedule), len(q.dead), q.totals["completed"], q.totals["failed"]]
        assert self.do(metrics.get_counts(bus, q.name, names)) == dict(zip(names, sizes, strict=True))

    @rule(by=BY)
    def look_at_gauges(self, by: Any) -> None:
        bus, q = self.at(by)
        seen, now = self.do(metrics.snapshot(bus, q.name, top=2)), q.world.now
        assert seen.leases.lapsed == len(q.ripe(q.active))
        ends = [at - now for at in q.active.values()]
        for said, got in (
            (min(ends, default=None), seen.leases.first_lapse_ms),
            (max(ends, default=None), seen.leases.last_lapse_ms),
        ):
            assert (said is None) == (got is None)
            assert said is None or got is None or said - 60_000 <= got <= said
        assert seen.limiter.kind == q.meta.get("limiter", "none")
        assert seen.limiter.left == (None if seen.limiter.kind == "none" else budgets.budget(q))
        assert seen.limiter.size == int(q.meta.get("max", q.meta.get("burst", 0)))
        about(budgets.limited_ms(q), seen.limiter.limited_ms)
        assert seen.concurrency == (int(q.meta["concurrency"]) if "concurrency" in q.meta else None)
        about(claims.next_due(q), seen.next_due_ms)
        depths = sorted((len(some) for some in q.lanes.values() if some), reverse=True)
        assert [lane.depth for lane in seen.top_lanes] == depths[:2]

    @rule(by=BY, name=LANES)
    def look_at_lanes(self, by: Any, name: str) -> None:
        bus, q = self.at(by)
        seen = self.do(lanes.explain(bus, q.name, name))
        assert (seen.depth, seen.active, seen.limit) == (len(q.lanes[name]), q.seats[name], q.limits.get(name))
        assert seen.ahead == (q.ring.index(name) if name in q.ring else None)
        assert (seen.rests_for_ms > 0) == (q.resting.get(name, 0) > q.world.now)
        about(budgets.limited_ms(q), seen.limited_ms)
        why = [reason.split(":")[0] for reason in seen.reasons]
        full = int(q.meta.get("concurrency", 1 << 30)) <= len(q.active)
        said = {
            "empty": not q.lanes[name],
            "paused": name in q.paused,
            "at its ceiling": q.seats[name] >= q.limits.get(name, 1 << 30),
            f"resting for {seen.rests_for_ms} ms": seen.rests_for_ms > 0,
            "queue paused": q.stopped,
            "over budget": seen.limited_ms > 0,
            "queue at its concurrency": full,
        }
        expected = [reason for reason, holds in said.items() if holds]
        if not expected and name not in q.ring:
            expected = [f"not among the {len(q.ring)} lanes of the ring"]  # its rest is over, and nobody promoted it
        assert why == expected
        assert self.do(lanes.depth(bus, q.name, name)) == len(q.lanes[name])
        assert self.do(lanes.depths(bus, q.name, LANE_NAMES)) == [len(q.lanes[g]) for g in LANE_NAMES]
        known = {*q.ring, *q.paused, *q.resting, *q.limits, *q.weights, *q.rates, *(g for g, n in q.seats.items() if n)}
        assert self.do(lanes.names(bus, q.name)) == sorted(known)

    @rule(by=BY, pick=PICK)
    def look_at_jobs(self, by: Any, pick: int) -> None:
        bus, q = self.at(by)
        some = sorted({*q.rows, *(job.id for job in self.taken[q.name])})
        job_id = some[pick % len(some)] if some else self.id()
        row = q.rows.get(job_id)
        found = self.do(admin.get_job(bus, q.name, job_id))
        assert found == (None if row is None else {name: value.encode() for name, value in row.items()})
        assert self.do(admin.get_job_state(bus, q.name, job_id)) == ("absent" if row is None else row.state)
        expected = q.logs.get(job_id, None if row is None else [])
        assert self.do(progress.get_logs(bus, q.name, job_id)) == expected
        assert self.do(progress.get_logs(bus, q.name, job_id, -1)) == (expected and expected[-1:])
        self._family(bus, q, job_id, row)
        for key in ("k1", "k2"):
            assert self.do(admin.get_dedup(bus, q.name, key)) == q.dedup.get(key)
        assert self.do(admin.browse(bus, q.name, 3)) == q.backlog(None)[::-1][:3]
        assert self.do(admin.browse(bus, q.name, 2, dead=True)) == sorted(q.dead)[::-1][:2]

    def _family(self, bus: Any, q: Queue, job_id: str, row: Row | None) -> None:
        """What a parent has heard."""
        row = row or Row({})
        values = self.do(flows.children_values(bus, q.name, job_id))
        assert values == {child: result.encode() for child, result in row.processed.items()}
        assert self.do(flows.failures(bus, q.name, job_id)) == row.failed
        assert self.do(flows.ignored_failures(bus, q.name, job_id)) == row.ignored
        assert self.do(flows.dependencies(bus, q.name, job_id)) == (row.left or 0)

    @rule(by=BY, n=st.sampled_from([0, 1, 3]))
    def look_at_limits(self, by: Any, n: int) -> None:
        bus, q = self.at(by)
        got = self.do(limits.get_rate_limit_ttl(bus, q.name, n))
        if n == 0:
            about(budgets.limited_ms(q), got)
        elif q.meta.get("limiter") != "bucket":
            about(max(1, q.lives["limiter"] - q.world.now) if q.spent >= n else 0, got)
        try:
            self.do(limits.require_seat(bus, q.name))
            free = True
        except AtCeiling:
            free = False
        assert free == (len(q.active) < int(q.meta.get("concurrency", 1 << 30)))

    @rule(by=BY)
    def look_at_repeats(self, by: Any) -> None:
        bus, q = self.at(by)
        listed = sorted(q.slots, key=lambda name: (q.slots[name], name))
        assert self.do(repeats.names(bus, q.name)) == listed
        assert [due.name for due in self.do(repeats.due(bus, q.name))] == q.ripe(q.slots)
        for name in ("r1", "r2"):
            found = self.do(repeats.get(bus, q.name, name))
            assert (found is None) == (name not in q.slots)
            if found:
                assert found == _with_slot(self.read[q.name][name], q.slots[name])

    @rule(by=BY, what=st.sampled_from(["queues", "note", "forget"]))
    def look_at_queues(self, by: Any, what: str) -> None:
        bus, q = self.at(by)
        if what == "note":
            self.do(registry.note(bus, q.name))
            self.world.note(by[0], q.name)
        elif what == "forget":
            self.do(registry.forget(bus, q.name))
            self.world.known.discard((by[0], q.name))
            self.world.listed.discard(q.name)
        assert self.do(registry.queues(bus)) == sorted(self.world.listed)


def _with_slot(repeat_: Any, slot: float) -> Any:
    return type(repeat_)(
        **{name: getattr(repeat_, name) for name in repeat_.__slots__ if name != "next_ms"}, next_ms=int(slot)
    )
