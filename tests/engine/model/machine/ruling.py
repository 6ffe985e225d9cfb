"""Rules by which an operator changes limits, lanes and jobs, and cleans up."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import initialize, precondition, rule

from codemojex.engine import ids
from codemojex.engine.errors import Locked, WrongState
from codemojex.engine.inspection import admin
from codemojex.engine.jobs import cancel, progress, pubsub, removal_marks
from codemojex.engine.lanes import lanes, limits
from tests.engine.model.machine.both import BY, LANE_NAMES, LANES, NAMES
from tests.engine.model.machine.coming import Coming
from tests.engine.model.machine.story import HOUR, PICK
from tests.engine.model.plain import admin as plain
from tests.engine.model.plain.limits import SLOW, configure, follow_default, follow_pace
from tests.engine.model.plain.state import Queue

KIND = "PRT"
SOME = st.sampled_from([None, 1, 2])
JOBS = st.sampled_from(["remove", "cancel", "cancel", "reprocess", "move", "update"])


class Ruling(Coming):
    """An operator's verbs."""

    # lanes and limits

    @initialize(
        default=st.sampled_from([None, None, 1, 2]),
        weight=st.sampled_from([None, 2, 3]),
        kind=st.sampled_from([None, None, "window", "bucket"]),
        bursts=st.sampled_from([(0, 0, 0), (0, 0, 0), (0, 0, 0), (3, 1, 0), (1, 2, 3), (0, 3, 1)]),
    )
    def settings(self, default: int | None, weight: int | None, kind: str | None, bursts: tuple[int, int, int]) -> None:
        """Stories differ from their first line: most have limits, some have paces."""
        self.first_settings(default, weight, kind)
        for what, burst in zip(("lane", "kind", "all"), bursts, strict=True):
            if burst:
                self.pace(by=(0, 0), burst=burst, what=what, name=LANE_NAMES[0])

    @rule(by=BY, name=LANES, n=SOME)
    def limit(self, by: Any, name: str, n: int | None) -> None:
        bus, q = self.at(by)
        self.do(lanes.limit(bus, q.name, name, n))
        q.defaulted.pop(name, None)
        _set(q.limits, name, n)
        q.visit(name)

    @rule(by=BY, n=SOME)
    def default_limit(self, by: Any, n: int | None) -> None:
        bus, q = self.at(by)
        self.do(limits.set_default_lane_limit(bus, q.name, n))
        configure(q, lane_limit=n)
        follow_default(q)

    @rule(by=BY, name=LANES, on=st.booleans())
    def pause_lane(self, by: Any, name: str, on: bool) -> None:
        bus, q = self.at(by)
        self.do((lanes.pause if on else lanes.resume)(bus, q.name, name))
        (q.paused.add if on else q.paused.discard)(name)
        q.visit(name)

    @rule(by=BY, name=LANES, n=st.sampled_from([None, 2, 3]))
    def weigh(self, by: Any, name: str, n: int | None) -> None:
        bus, q = self.at(by)
        self.do(lanes.weight(bus, q.name, name, n))
        _set(q.weights, name, n)
        q.visit(name)

    @rule(by=BY, burst=st.sampled_from([None, 1, 2, 3]), what=st.sampled_from(["all", "kind", "lane"]), name=LANES)
    def pace(self, by: Any, burst: int | None, what: str, name: str) -> None:
        """Of every lane, of those of a kind, or of one alone."""
        bus, q = self.at(by)
        rate = SLOW if burst else None
        text = f"{SLOW}:{burst}" if burst else None
        whom = {"lane": name} if what == "lane" else {"kind": KIND} if what == "kind" else {}
        self.do(limits.set_lane_rate(bus, q.name, rate, burst or 1, **whom))
        if what == "all":
            configure(q, lane_rate=rate, lane_burst=burst)
            follow_pace(q, sorted(q.resting, key=lambda lane: (q.resting[lane], lane)))
        elif what == "kind":
            configure(q, **{f"lane_rate:{KIND}": text, "lane_kinds": 1})
            follow_pace(q, sorted(q.resting, key=lambda lane: (q.resting[lane], lane)))
        else:
            _set(q.rates, name, text)
            follow_pace(q, [name])
            q.visit(name)

    @rule(by=BY, name=LANES, on=st.booleans())
    def park(self, by: Any, name: str, on: bool) -> None:
        bus, q = self.at(by)
        ms = self.hour() if on else 0
        self.do(lanes.park(bus, q.name, name, ms))
        if ms:
            q.rest(name, q.world.after(ms))
        else:
            q.end_rest(name)
        q.visit(name)

    @rule(by=BY, kind=st.sampled_from([None, None, "window", "bucket"]), n=st.integers(2, 8))
    def rate(self, by: Any, kind: str | None, n: int) -> None:
        bus, q = self.at(by)
        self.budget(bus, q, kind, n)

    @rule(by=BY, n=st.sampled_from([None, None, 2, 4]))
    def concurrency(self, by: Any, n: int | None) -> None:
        bus, q = self.at(by)
        self.do(limits.set_concurrency(bus, q.name, n))
        configure(q, concurrency=n)

    @rule(by=BY, on=st.sampled_from([True, False, False, False]))
    def pause(self, by: Any, on: bool) -> None:
        bus, q = self.at(by)
        self.do((admin.pause if on else admin.resume)(bus, q.name))
        configure(q, paused=1 if on else None)

    # jobs

    @precondition(lambda self: any(q.rows for q in self.world.queues.values()))
    @rule(client=st.integers(0, 2), pick=PICK, what=JOBS, to=LANES)
    def treat(self, client: int, pick: int, what: str, to: str) -> None:
        """One job of any state is removed, cancelled, moved …"""
        bus, (q, job_id) = self.buses[client], self._any_job(pick)
        key = "k1" if what == "remove" and pick % 4 == 0 else None
        try:
            match what:
                case "remove":
                    said = plain.remove(q, job_id, key)
                    assert self.do(admin.remove_job(bus, q.name, job_id, key)) == (said == "removed")
                case "cancel":
                    why = f"why {pick % 2}"
                    said = plain.cancel(q, job_id, why)
                    assert self.do(cancel.request(bus, q.name, job_id, why)).value == said
                case "reprocess":
                    said = plain.reprocess(q, job_id)
                    assert self.do(admin.reprocess(bus, q.name, job_id)) == (said == "waits")
                case "move":
                    said = plain.move(q, job_id, to)
                    assert self.do(lanes.move(bus, q.name, job_id, to)) == said
                case _:
                    said = "updated" if job_id in q.rows else "gone"
                    assert self.do(admin.update_data(bus, q.name, job_id, b"new")) == (said == "updated")
                    if job_id in q.rows:
                        q.rows[job_id]["payload"] = "new"
        except Locked:
            assert said == "locked"
        except WrongState:
            assert said == "not dead"

    def _any_job(self, pick: int) -> tuple[Queue, str]:
        """A job that is there; now and then one that was."""
        some = sorted((q.name, i) for q in self.world.queues.values() for i in q.rows)
        if pick % 10 == 0:
            some += [(name, job.id) for name, taken in self.taken.items() for job in taken]
        name, job_id = some[pick % len(some)]
        return self.world.queues[name], job_id

    @precondition(lambda self: any(q.dead for q in self.world.queues.values()))
    @rule(client=st.integers(0, 2), pick=PICK)
    def reprocess(self, client: int, pick: int) -> None:
        some = sorted((q.name, i) for q in self.world.queues.values() for i in q.dead)
        name, job_id = some[pick % len(some)]
        assert self.do(admin.reprocess(self.buses[client], name, job_id))
        plain.reprocess(self.world.queues[name], job_id)

    @precondition(lambda self: any(q.active for q in self.world.queues.values()))
    @rule(client=st.integers(0, 2), pick=PICK, on=st.booleans())
    def mark(self, client: int, pick: int, on: bool) -> None:
        """A holder marks jobs, its own and one that may be anywhere, or takes marks away."""
        some = sorted((q.name, i) for q in self.world.queues.values() for i in q.active)
        name, job_id = some[pick % len(some)]
        q, bus = self.world.queues[name], self.buses[client]
        held = [(job_id, q.rows[job_id].token), *[(job.id, job.token) for job in self.taken[name][:1]]]
        if on:
            said = [plain.mark(q, *one, HOUR) for one in held]
            assert self.do(removal_marks.track(bus, name, held, HOUR)) == said
        else:
            said = [plain.unmark(q, *one) for one in held]
            assert self.do(removal_marks.untrack(bus, name, held)) == said

    @precondition(lambda self: any(q.rows for q in self.world.queues.values()))
    @rule(
        client=st.integers(0, 2), pick=PICK, keep=st.sampled_from([0, 1, 2]), what=st.sampled_from(["log", "progress"])
    )
    def note(self, client: int, pick: int, keep: int, what: str) -> None:
        bus, (q, job_id) = self.buses[client], self._any_job(pick)
        if what == "log":
            line = f"line {self.serial}"
            assert self.do(progress.add_log(bus, q.name, job_id, line, keep=keep)) == plain.log(q, job_id, line, keep)
        else:
            assert self.do(progress.update_progress(bus, q.name, job_id, "half")) == plain.progress(q, job_id, "half")

    @rule(by=BY, many=st.booleans())
    def publish(self, by: Any, many: bool) -> None:
        """Events that applications tell, in their order."""
        bus, q = self.at(by)
        job_id = self.id()
        if many:
            texts = [pubsub.encode(name, job_id) for name in ("first", "second")]
            self.do(pubsub.publish_many(bus, q.name, texts))
            self.world.heard += [(q.name, {"event": name, "job": job_id}) for name in ("first", "second")]
        else:
            assert self.do(pubsub.publish(bus, q.name, "done", job_id, by="me")) == 1
            self.world.heard.append((q.name, {"event": "done", "job": job_id, "by": "me"}))

    # cleaning up

    @rule(by=BY, name=NAMES, limit=st.sampled_from([0, 1, 2, 100]), schedule=st.booleans())
    def drain(self, by: Any, name: str | None, limit: int, schedule: bool) -> None:
        bus, q = self.at(by)
        if name:
            assert self.do(lanes.drain(bus, q.name, name, limit)) == (plain.drain_lane(q, name, limit) if limit else 0)
        else:
            deleted = self.do(admin.drain(bus, q.name, include_schedule=schedule, limit=limit))
            assert deleted == plain.drain(q, schedule=schedule, limit=limit)

    @precondition(lambda self: any(q.dead for q in self.world.queues.values()))
    @rule(client=st.integers(0, 2), keep=st.integers(0, 3), limit=st.sampled_from([1, 100]), age=st.integers(0, 2))
    def trim_dead(self, client: int, keep: int, limit: int, age: int) -> None:
        """Beyond a number, or minted before an instant: none, all, or those before one of the dead."""
        q = max(self.world.queues.values(), key=lambda some: len(some.dead))
        some = sorted(q.dead)
        ms = (None, 3_000_000_000_000, ids.parse(some[keep % len(some)]).unix_ms)[age]
        before = None if ms is None else ids.encode("JOB", ids.min_for(ms))
        more = {"keep": keep, "minted_before_ms": ms, "limit": limit}
        deleted = self.do(admin.trim_dead(self.buses[client], q.name, **more))
        assert deleted == plain.trim_dead(q, keep, before, limit)

    @rule(by=BY, budget=st.sampled_from([1, 3, 1000]), force=st.booleans(), pause=st.integers(0, 7))
    def obliterate(self, by: Any, budget: int, force: bool, pause: int) -> None:
        """Refused unless the queue is paused and, without force, has nothing in flight; else in small steps."""
        bus, q = self.at(by)
        if pause == 0 and self.serial > 15:
            self.do(admin.pause(bus, q.name))
            configure(q, paused=1)
        waiting = [[g for g in some if q.lanes[g]] for some in (q.paused, q.seats)]
        if any(len(some) > 1 for some in waiting):
            return  # which of them goes first is chance, and parents elsewhere would hear in that order
        refused = not q.stopped or (bool(q.active) and not force)
        try:
            for _ in range(1000):
                if self.do(admin.obliterate(bus, q.name, force=force, budget=budget)):
                    break
            assert not refused
        except WrongState:
            assert refused
            return
        plain.obliterate(q)
        self.world.known.discard((by[0], q.name))
        self.world.listed.discard(q.name)


def _set(some: dict[str, Any], name: str, value: object) -> None:
    some.pop(name, None)
    if value is not None:
        some[name] = value
