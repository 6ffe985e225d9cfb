"""Rules by which attempts end, leases are renewed and lapse, and time passes."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from codemojex.engine.errors import EffectFailed, StaleToken
from codemojex.engine.jobs import claims, removal_marks, settlement
from codemojex.engine.jobs.effects import Effect
from codemojex.engine.jobs.jobs import Job
from codemojex.engine.jobs.outcome import Complete, Delay, Discard, GiveBack, Outcome, Park, Retry
from codemojex.engine.jobs.settlement import EffectFailure, Gone, Settled, Settlement, SettleVerdict, Stale
from codemojex.engine.maintenance import promotion, recovery
from tests.engine.model.machine.both import BY, LANE_NAMES
from tests.engine.model.machine.coming import BYTES, LEASE, MAX_ATTEMPTS, Coming
from tests.engine.model.machine.story import HOUR, PICK
from tests.engine.model.plain import admin as marks
from tests.engine.model.plain import claims as plain
from tests.engine.model.plain import settlement as ends
from tests.engine.model.plain.effects import BODIES
from tests.engine.model.plain.limits import restore
from tests.engine.model.plain.state import PAST, Queue

MAX_STALLED = 2
HOW = st.sampled_from(
    [
        *("done", "done", "done", "done", "result", "result", "note", "follow", "refuse", "fail"),
        *("retry", "retry soon", "retry by itself", "delay", "park", "discard", "give back"),
    ]
)


class Ending(Coming):
    """What becomes of attempts."""

    def outcome(self, q: Queue, how: str) -> Outcome:
        effect = None
        match how:
            case "retry soon" if not any(-2 < at - q.world.now < HOUR / 2 for at in q.schedule.values()):
                return Retry("no", 0)
            case "retry":
                return Retry("no", self.hour())
            case "retry by itself" | "retry soon":
                return Retry("no")
            case "delay":
                return Delay(self.hour())
            case "park":
                return Park(self.hour())
            case "discard":
                return Discard("no")
            case "give back":
                return GiveBack()
            case "note":
                effect = Effect("note", (f"{self.prefixes[q.name]}notes",), (f"n{self.serial % 3}", 7))
            case "follow":
                keys = [f"{self.prefixes[q.name]}{key}" for key in ("", "stream:done", "stream:cell")]
                effect = Effect("follow", keys, (self.id(),))
            case "refuse" | "fail":
                effect = Effect(how)
            case _:
                pass
        return Complete(b"result" if how in ("result", "note") else None, effect)

    def held(self) -> list[tuple[Queue, Job]]:
        """Every attempt that is in flight."""
        queues = self.world.queues
        return [
            (queues[name], job)
            for name, some in self.taken.items()
            for job in some
            if job.id in queues[name].active and queues[name].rows[job.id].token == job.token
        ]

    @precondition(lambda self: any(q.active for q in self.world.queues.values()))
    @rule(
        client=st.integers(0, 2),
        some=st.lists(st.tuples(PICK, HOW), min_size=1, max_size=4),
        n=st.sampled_from([0, 0, 1, 2, 3]),
        max_bytes=BYTES,
    )
    def settle(self, client: int, some: list[tuple[int, str]], n: int, max_bytes: int) -> None:
        """The steady state of a worker: end some attempts, perhaps one of them twice, and claim for the free places."""
        held = self.held()
        q = held[some[0][0] % len(held)][0]
        mine = [job for queue, job in held if queue is q]
        ended = [(mine[pick % len(mine)], how) for pick, how in some]
        self._settle(client, q, ended, n, max_bytes)

    @precondition(lambda self: any(self.taken.values()))
    @rule(by=BY, pick=PICK, how=HOW)
    def settle_any(self, by: Any, pick: int, how: str) -> None:
        """Any attempt of any time, most of them long over: the fence decides."""
        _, q = self.at(by)
        if some := self.taken[q.name]:
            self._settle(by[0], q, [(some[pick % len(some)], how)], 0, claims.DEFAULT_BYTES)

    @precondition(lambda self: self._superseded())
    @rule(client=st.integers(0, 2), pick=PICK, how=HOW)
    def settle_late(self, client: int, pick: int, how: str) -> None:
        """An attempt whose job waits again, or went on to another one."""
        late = self._superseded()
        q, job = late[pick % len(late)]
        self._settle(client, q, [(job, how)], 0, claims.DEFAULT_BYTES)

    def _superseded(self) -> list[tuple[Queue, Job]]:
        queues = self.world.queues
        return [
            (queues[name], job)
            for name, some in self.taken.items()
            for job in some
            if job.id in queues[name].rows and job.id not in queues[name].active
        ]

    def _settle(self, client: int, q: Queue, ended: list[tuple[Job, str]], n: int, max_bytes: int) -> None:
        bus = self.buses[client]
        items = [Settlement(job.id, job.token, self.outcome(q, how)) for job, how in ended]
        policy = self.policy()
        more: dict[str, Any] = {"effects": BODIES, "policy": policy}
        if n:
            verb = settlement.settle_and_claim(bus, q.name, items, n, LEASE, max_bytes=max_bytes, **more)
            verdicts, claimed = self.do(verb)
        else:
            verdicts, claimed = self.do(settlement.settle_many(bus, q.name, items, **more)), None
        self._agree(ends.settle(q, items, policy), verdicts)
        if claimed is None:
            ends.wake_for_seats(q)
        else:
            self.claimed(q, plain.claim(q, n, LEASE, max_bytes), claimed)

    def _agree(self, said: list[ends.Verdict], verdicts: list[SettleVerdict]) -> None:
        for (code, state, reply), verdict in zip(said, verdicts, strict=True):
            fenced = {"gone": Gone(), "stale": Stale()}
            if code == "effect_failed":
                assert isinstance(verdict, EffectFailure)
            else:
                assert verdict == fenced.get(code, Settled(state, reply))  # type: ignore[arg-type]

    @precondition(lambda self: any(self.taken.values()))
    @rule(by=BY, pick=PICK, how=st.sampled_from(["complete", "retry", "delay"]))
    def settle_one(self, by: Any, pick: int, how: str) -> None:
        """The verbs for a single job raise for a token that is not the job's own."""
        bus, q = self.at(by)
        some = [job for queue, job in self.held() if queue is q] or self.taken[q.name]
        if not some:
            return
        job, ms = some[pick % len(some)], self.hour()
        outcome, verb = {
            "complete": (
                self.outcome(q, "note"),
                lambda: settlement.complete(bus, q.name, job.id, job.token, effect, effects=BODIES, result=b"result"),
            ),
            "retry": (
                Retry("no", ms),
                lambda: settlement.retry(bus, q.name, job.id, job.token, "no", delay_ms=ms, max_attempts=MAX_ATTEMPTS),
            ),
            "delay": (Delay(ms), lambda: settlement.delay(bus, q.name, job.id, job.token, ms)),
        }[how]
        effect = outcome.effect if isinstance(outcome, Complete) else None
        ((code, state, reply),) = ends.settle(q, [Settlement(job.id, job.token, outcome)], self.policy())
        ends.wake_for_seats(q)
        try:
            answer: Any = self.do(verb())
        except StaleToken:
            assert code == "stale"
        except EffectFailed:
            assert code == "effect_failed"
        else:
            assert answer == (Gone() if code == "gone" else Settled(state, reply))  # type: ignore[arg-type]

    # leases

    @precondition(lambda self: any(self.taken.values()))
    @rule(by=BY, picks=st.lists(PICK, min_size=1, max_size=3), how=st.sampled_from(["many", "lost", "one", "marks"]))
    def extend(self, by: Any, picks: list[int], how: str) -> None:
        bus, q = self.at(by)
        some = [job for queue, job in self.held() if queue is q] + self.taken[q.name][-3:]
        leases = list({job.id: job.token for job in (some[pick % len(some)] for pick in picks)}.items()) if some else []
        if not leases:
            return
        said = {job_id: ends.renew(q, job_id, token, LEASE) for job_id, token in leases[: 1 if how == "one" else 3]}
        lost = [job_id for job_id, verdict in said.items() if verdict in ("stale", "gone")]
        match how:
            case "many":
                renewed = self.do(settlement.renew_many(bus, q.name, leases, LEASE))
                assert renewed.lost == lost
                asked = {i: verdict[7:] for i, verdict in said.items() if verdict.startswith("cancel:")}
                assert renewed.cancelled == asked
            case "lost":
                assert self.do(settlement.extend_many(bus, q.name, leases, LEASE)) == lost
            case "marks":
                assert self.do(removal_marks.refresh(bus, q.name, leases, LEASE)) == lost
                for job_id, token in leases:
                    if job_id not in lost:
                        marks.mark(q, job_id, token, 2 * LEASE)
            case _:
                (verdict,) = said.values()
                try:
                    there = self.do(settlement.extend(bus, q.name, *leases[0], LEASE))
                except StaleToken:
                    assert verdict == "stale"
                else:
                    assert there == (verdict != "gone")
                    assert verdict != "stale"

    @rule(by=BY, limit=st.sampled_from([1, 2, 100]), only=st.sampled_from([None, None, None, *LANE_NAMES]))
    def recover(self, by: Any, limit: int, only: str | None) -> None:
        bus, q = self.at(by)
        answer = self.do(recovery.recover(bus, q.name, limit=limit, max_stalled=MAX_STALLED, lane=only))
        assert (list(answer.waiting), list(answer.dead)) == ends.recover(q, limit, MAX_STALLED, only)

    @rule(by=BY)
    def promote(self, by: Any) -> None:
        bus, q = self.at(by)
        answer = self.do(promotion.promote(bus, q.name))
        assert answer.jobs == plain.promote(q)

    # time

    @precondition(lambda self: any(q.active for q in self.world.queues.values()))
    @rule(picks=st.lists(PICK, min_size=1, max_size=3))
    def leases_lapse(self, picks: list[int]) -> None:
        self._past("active", picks)

    @precondition(lambda self: any(q.schedule for q in self.world.queues.values()))
    @rule(picks=st.lists(PICK, min_size=1, max_size=4))
    def jobs_come_due(self, picks: list[int]) -> None:
        self._past("schedule", picks)

    @precondition(lambda self: any(q.resting for q in self.world.queues.values()))
    @rule(picks=st.lists(PICK, min_size=1, max_size=3))
    def lanes_have_rested(self, picks: list[int]) -> None:
        for q, lane in self._past("resting", picks):
            self.wires[0].now("DEL", f"{self.prefixes[q.name]}pace:{lane}")
            q.arrivals.pop(f"pace:{lane}", None)
            q.lives.pop(f"pace:{lane}", None)

    def _past(self, name: str, picks: list[int]) -> list[tuple[Queue, str]]:
        times = {(q.name, i): q for q in self.world.queues.values() for i in getattr(q, name)}
        listed = sorted(times)
        chosen = sorted({listed[pick % len(listed)] for pick in picks})
        for where, i in chosen:
            self.wires[0].now("ZADD", f"{self.prefixes[where]}{name}", "XX", PAST, i)
            getattr(times[where, i], name)[i] = PAST
        return [(times[key], key[1]) for key in chosen]

    @precondition(lambda self: any("limiter" in q.lives for q in self.world.queues.values()))
    @rule()
    def the_budget_returns(self) -> None:
        for q in self.world.queues.values():
            self.wires[0].now("DEL", f"{self.prefixes[q.name]}limiter")
            restore(q)

    @rule(by=BY, pick=PICK)
    def a_key_ends(self, by: Any, pick: int) -> None:
        """An idempotency window, a mark, a log, or what a flow's part left comes to its end."""
        _, q = self.at(by)
        some = sorted(key for key in q.lives if key.startswith(("de:", "done:", "job:")))
        if not some:
            return
        key = some[pick % len(some)]
        assert self.wires[0].now("DEL", self.prefixes[q.name] + key) == 1
        del q.lives[key]
        if key.startswith("de:"):
            del q.dedup[key[3:]]
        elif key.startswith("done:"):
            del q.done[key[5:]]
        elif key.endswith(":part"):
            del q.parts[key.split(":")[1]]
        elif key.endswith(":logs"):
            del q.logs[key.split(":")[1]]
        else:
            job_id = key.split(":")[1]
            del q.locks[job_id]
            if job_id in q.rows:
                self.wires[0].now("HDEL", f"{self.prefixes[q.name]}job:{job_id}", "lock")
                q.rows[job_id].pop("lock", None)
