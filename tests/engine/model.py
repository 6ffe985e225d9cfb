"""The protocol in plain Python: what one queue holds, and what each verb does to it.

It knows rows, backlogs, the rota, seats, limits, idempotency keys and flows, and no server. Times are three: the
past, now, and far away; the machine that drives it replaces `NOW` by what the server wrote.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import inf

from codemojex.engine.outcome import Complete, Delay, Discard, GiveBack, Outcome, Park, Retry

PAST, NOW, FAR = 1.0, 8e15, 9e15
MAX_FAILURES = 2
BURST = 2  # of every lane that is paced


@dataclass
class Row:
    """What the queue knows of a job."""

    payload: bytes
    lane: str | None = None
    state: str = "pending"
    token: int = 0
    failures: int = 0
    stalled: int = 0
    lapsed: bool = False
    expired: bool = False
    cancelled: bool = False
    dedup: str | None = None
    release: str = "window"
    parent: str | None = None
    ignore: bool = False
    left: int | None = None
    processed: dict[str, bytes] = field(default_factory=dict[str, bytes])
    failed: set[str] = field(default_factory=set[str])
    ignored: set[str] = field(default_factory=set[str])


@dataclass
class Claim:
    """A claim on its way."""

    want: float
    mode: str
    credit: tuple[str, int] | None = None
    served: Counter[str] = field(default_factory=Counter[str])
    taken: list[str] = field(default_factory=list[str])
    dead: list[str] = field(default_factory=list[str])


@dataclass
class Model:
    jobs: dict[str, Row] = field(default_factory=dict[str, Row])
    ring: list[str] = field(default_factory=list[str])
    schedule: dict[str, float] = field(default_factory=dict[str, float])
    active: dict[str, float] = field(default_factory=dict[str, float])
    resting: dict[str, float] = field(default_factory=dict[str, float])
    seats: Counter[str] = field(default_factory=Counter[str])
    stopped: set[str] = field(default_factory=set[str])
    limits: dict[str, int] = field(default_factory=dict[str, int])
    defaulted: set[str] = field(default_factory=set[str])
    default_limit: int | None = None
    weights: dict[str, int] = field(default_factory=dict[str, int])
    paces: set[str] = field(default_factory=set[str])
    pace_all: bool = False
    paced: Counter[str] = field(default_factory=Counter[str])
    paused: bool = False
    rate: tuple[str, int] | None = None
    spent: int = 0
    concurrency: int | None = None
    turns: int = 0
    credit: tuple[str, int] | None = None
    keys: dict[str, str] = field(default_factory=dict[str, str])
    completed: int = 0
    failures: int = 0

    # places

    def backlog(self, lane: str | None) -> list[str]:
        return sorted(i for i, row in self.jobs.items() if row.state == "pending" and row.lane == lane)

    def lanes(self) -> set[str]:
        return {row.lane for row in self.jobs.values() if row.lane and row.state == "pending"}

    def visit(self, lane: str | None) -> None:
        """The lane stands in the ring exactly when it may be served; it comes in at the tail."""
        if lane is None:
            return
        full = lane in self.limits and self.seats[lane] >= self.limits[lane]
        served = bool(self.backlog(lane)) and lane not in self.stopped and lane not in self.resting and not full
        if served and lane not in self.ring:
            self.ring.append(lane)
        elif not served and lane in self.ring:
            self.ring.remove(lane)

    def freed(self, lane: str | None) -> None:
        """An idle lane forgets the ceiling that it had by default."""
        if lane in self.defaulted and not self.seats[lane] and not self.backlog(lane):
            self.defaulted.remove(lane)
            del self.limits[lane]

    def put(self, job_id: str) -> None:
        row = self.jobs[job_id]
        lane, empty = row.lane, not self.backlog(row.lane)
        row.state = "pending"
        if lane and empty and self.default_limit and lane not in self.limits:
            self.limits[lane] = self.default_limit
            self.defaulted.add(lane)
        self.visit(lane)

    # admission

    def admit(self, job_id: str, row: Row, due: float | None = None) -> tuple[str, str]:
        if job_id in self.jobs:
            return ("duplicate" if self.jobs[job_id].payload == row.payload else "conflict"), job_id
        if row.dedup:
            if row.dedup in self.keys:
                return "duplicate", self.keys[row.dedup]
            self.keys[row.dedup] = job_id
        row.state = "new"
        self.jobs[job_id] = row
        if row.left is not None:
            row.state = "awaiting_children"
            return "held", job_id
        if due is not None:
            row.state, self.schedule[job_id] = "scheduled", due
            return "scheduled", job_id
        self.put(job_id)
        return "enqueued", job_id

    # claims

    def promote(self) -> int:
        for lane in self._ripe(self.resting):
            del self.resting[lane]
            self.visit(lane)
        due = self._ripe(self.schedule)
        for job_id in due:
            del self.schedule[job_id]
            self.put(job_id)
        return len(due)

    def _ripe(self, times: dict[str, float]) -> list[str]:
        return sorted((i for i, at in times.items() if at <= NOW), key=lambda i: (times[i], i))

    def units(self) -> float:
        return inf if self.rate is None else max(0, self.rate[1] - self.spent)

    def claim(self, n: int, mode: str = "all") -> list[str]:
        if self.paused:
            return []
        if mode == "all":
            self.promote()
        room = inf if self.concurrency is None else self.concurrency - len(self.active)
        c = Claim(min(n, self.units(), room), mode)
        flat = self.backlog(None) if mode in ("all", "flat") else []
        ring, rest = ([], self.ring) if mode == "flat" else (list(self.ring), [])
        mixed = bool(flat and ring and c.want > 0)
        turns = self.turns if mixed else 0
        if ring and self.weights and c.want > 0:
            c.credit, self.credit = self.credit, None
        while len(c.taken) < c.want and (ring or flat):
            if flat and (not ring or turns >= len(ring)):
                turns = 0
                self._hand_out(flat.pop(0), c)
                continue
            turns += 1
            lane = ring.pop(0)
            back = self._turn(lane, c)
            ring[len(ring) if back == "tail" else 0 : 0] = [lane] if back else []
            c.credit = None
            if mode in ("lane", "whole") and c.taken:
                break
        if mixed:
            self.turns = turns
        self.ring = [*ring, *rest]
        self.seats += c.served
        if self.rate:
            self.spent += len(c.taken)
        for job_id in c.taken:
            self.active[job_id] = FAR
        for job_id in c.dead:
            self.child_failed(job_id)
        return c.taken

    def _turn(self, lane: str, c: Claim) -> str | None:
        """One lane's turn; whether it stands at the ring's tail or head afterwards."""
        limit, seated = self.limits.get(lane, inf), self.seats[lane] + c.served[lane]
        units = BURST - self.paced[lane] if self.pace_all or lane in self.paces else inf
        turn = self.weights.get(lane, 1)
        if c.credit and c.credit[0] == lane:
            turn = c.credit[1]
        if c.mode == "whole":
            turn = c.want
        quota, backlog, k = min(turn, limit - seated, units), self.backlog(lane), 0
        while k < quota and backlog and len(c.taken) < c.want:
            k += self._hand_out(backlog.pop(0), c)
        if k:
            c.served[lane] += k
            self.paced[lane] += k if units < inf else 0
        tired = units - k < 1
        if not backlog:
            if not seated + k:
                self.freed(lane)
            return None
        if tired:
            self.resting[lane] = FAR
        if tired or seated + k >= limit:
            return None
        if k < turn and c.mode != "whole":
            self.credit = (lane, int(turn) - k)
            return "head"
        return "tail"

    def _hand_out(self, job_id: str, c: Claim) -> bool:
        row = self.jobs[job_id]
        if row.release == "claim":
            self._free_key(job_id)
        if row.expired or row.cancelled:
            self._bury(job_id)
            c.dead.append(job_id)
            return False
        row.state, row.token = "active", row.token + 1
        c.taken.append(job_id)
        return True

    def _free_key(self, job_id: str) -> None:
        key = self.jobs[job_id].dedup
        if key and self.keys.get(key) == job_id:
            del self.keys[key]

    # ends

    def settle(self, items: Sequence[tuple[str, str, Outcome]]) -> list[str]:
        left: Counter[str] = Counter()
        gone: list[str] = []
        verdicts = [self._settle(*item, left, gone) for item in items]
        for job_id in gone:
            del self.active[job_id]
        for lane, n in left.items():
            self.seats[lane] -= n
            self.visit(lane)
            self.freed(lane)
        return verdicts

    def _settle(self, job_id: str, token: str, outcome: Outcome, left: Counter[str], gone: list[str]) -> str:
        row = self.jobs.get(job_id)
        if row is None:
            return "gone"
        if str(row.token) != token or not (row.state == "active" or (row.state == "pending" and row.lapsed)):
            return "stale"
        row.lapsed = False
        if row.state == "active":
            gone.append(job_id)
            if row.lane:
                left[row.lane] += 1
        row.state = "ended"
        if job_id not in gone:
            self.visit(row.lane)
            self.freed(row.lane)
        match outcome:
            case Complete(result=result):
                del self.jobs[job_id]
                self.completed += 1
                self._child_done(job_id, row, result if isinstance(result, bytes) else job_id.encode())
                return "completed"
            case Retry(delay_ms=ms):
                row.failures += 1
                if row.failures < MAX_FAILURES:
                    row.state, self.schedule[job_id] = "scheduled", NOW if ms == 0 else FAR
                    return "scheduled"
                self.die(job_id)
                return "dead"
            case Discard():
                self.die(job_id)
                return "dead"
            case Park() if row.lane:
                self.resting[row.lane] = FAR
                self.visit(row.lane)
            case Delay() | Park():
                row.state, self.schedule[job_id] = "scheduled", FAR
                return "scheduled"
            case GiveBack():
                pass
        self.put(job_id)
        return "pending"

    def recover(self, limit: int, max_stalled: int) -> tuple[list[str], list[str]]:
        back: list[str] = []
        dead: list[str] = []
        for job_id in self._ripe(self.active)[:limit]:
            del self.active[job_id]
            row = self.jobs[job_id]
            row.stalled += 1
            row.state = "ended"
            if row.lane:
                self.seats[row.lane] -= 1
            if row.stalled >= max_stalled:
                self.visit(row.lane)
                self.freed(row.lane)
                self.die(job_id)
                dead.append(job_id)
            else:
                self.put(job_id)
                row.lapsed = True
                back.append(job_id)
        return back, dead

    def extend(self, job_id: str, token: str) -> bool:
        alive = job_id in self.active and str(self.jobs[job_id].token) == token
        if alive:
            self.active[job_id] = FAR
        return alive

    def _bury(self, job_id: str) -> None:
        self.jobs[job_id].state = "dead"
        self.failures += 1

    def die(self, job_id: str) -> None:
        self._bury(job_id)
        self.child_failed(job_id)

    # flows

    def _parent(self, child: Row) -> Row | None:
        parent = self.jobs.get(child.parent) if child.parent else None
        return parent if parent and parent.left is not None else None

    def _count(self, parent_id: str, parent: Row) -> None:
        assert parent.left is not None
        parent.left -= 1
        if parent.left <= 0 and parent.state == "awaiting_children":
            self.put(parent_id)

    def _child_done(self, job_id: str, row: Row, result: bytes) -> None:
        parent = self._parent(row)
        if not parent or not row.parent or job_id in parent.processed:
            return
        parent.processed[job_id] = result
        parent.failed.discard(job_id)
        if job_id in parent.ignored:
            parent.ignored.remove(job_id)
        else:
            self._count(row.parent, parent)

    def child_failed(self, job_id: str) -> None:
        row = self.jobs[job_id]
        parent = self._parent(row)
        record = parent and (parent.ignored if row.ignore else parent.failed)
        if not parent or not row.parent or record is None or job_id in record or job_id in parent.processed:
            return
        record.add(job_id)
        if row.ignore:
            self._count(row.parent, parent)
        elif parent.state == "awaiting_children":
            self.die(row.parent)

    # an operator's verbs

    def erase(self, job_id: str) -> None:
        self._free_key(job_id)
        if self.jobs[job_id].state != "dead":
            self.child_failed(job_id)
        del self.jobs[job_id]

    def remove(self, job_id: str) -> None:
        row = self.jobs[job_id]
        held = self.active.pop(job_id, None) is not None
        self.schedule.pop(job_id, None)
        # The parent hears of it before the lane's seat is free.
        self.erase(job_id)
        if row.lane:
            self.seats[row.lane] -= held
            self.visit(row.lane)
            self.freed(row.lane)

    def drain(self, lane: str) -> int:
        drained = self.backlog(lane)
        for job_id in drained:
            self.jobs[job_id].state = "ended"
        self.visit(lane)
        self.freed(lane)
        for job_id in drained:
            self.erase(job_id)
        return len(drained)

    def cancel(self, job_id: str) -> str:
        row = self.jobs.get(job_id)
        if row is None:
            return "gone"
        if row.state == "dead":
            return "dead"
        if row.state == "active":
            row.cancelled = True
            return "asked"
        self.schedule.pop(job_id, None)
        row.state = "ended"
        self.visit(row.lane)
        self.freed(row.lane)
        if row.release == "claim":
            self._free_key(job_id)
        self.die(job_id)
        return "cancelled"

    def reprocess(self, job_id: str) -> None:
        row = self.jobs[job_id]
        row.failures = row.stalled = 0
        row.expired = row.cancelled = row.lapsed = False
        self.put(job_id)

    def move(self, job_id: str, to: str) -> str:
        row = self.jobs.get(job_id)
        if row is None or row.lane is None:
            return "not_found"
        if row.lane == to:
            return "noop"
        if row.state != "pending":
            return "not_pending"
        origin, row.lane, row.state = row.lane, to, "ended"
        self.put(job_id)
        self.visit(origin)
        self.freed(origin)
        return "moved"
