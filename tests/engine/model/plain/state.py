"""What a server holds, in plain Python: rows, backlogs, the rota, seats, limits, keys that end by themselves.

`World` is a server with its queues, `Queue` one queue with the places a job can stand in. The verbs are functions in
the modules beside this one. Times are Unix milliseconds; one that a verb reckons from `now` is `Fresh` until it was
compared with the server's, whose clock may have gone on a little.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from math import inf

PAST = 1.0
MOST_WAKES = 64


class Fresh(float):
    """A time that was reckoned in the present step: the server's own is the same or a little later."""


class Row(dict[str, str]):
    """A job's hash, field by field; beside it what a parent has heard of its children (id to result or error)."""

    def __init__(self, fields: dict[str, str]) -> None:
        super().__init__(fields)
        self.left: int | None = None
        self.processed: dict[str, str] = {}
        self.failed: dict[str, str] = {}
        self.ignored: dict[str, str] = {}

    @property
    def state(self) -> str:
        return self["state"]

    @property
    def lane(self) -> str | None:
        return self.get("group")

    @property
    def token(self) -> str:
        return self["attempts"]

    def count(self, name: str) -> int:
        return int(self.get(name, 0))


@dataclass
class World:
    """One server. `heard` are the events of the present step: queue, then the event's fields."""

    now: float = 0
    queues: dict[str, Queue] = field(default_factory=dict)
    listed: set[str] = field(default_factory=set)
    known: set[tuple[int, str]] = field(default_factory=set)
    heard: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    # Numbers of flows' lives: what the model takes for one until the server's own was seen.
    flows: int = 0
    real: dict[str, str] = field(default_factory=dict)

    def after(self, ms: float) -> Fresh:
        return Fresh(self.now + ms)

    def life(self) -> str:
        """A number for a new life of a flow, above all that there were."""
        self.flows += 1
        name = f"{(self.now + 1) * 1000 + self.flows:.0f}"
        self.real[name] = ""
        return name

    def note(self, client: int, queue: str) -> None:
        """A client lists a queue when it first puts something in."""
        if (client, queue) not in self.known:
            self.known.add((client, queue))
            self.listed.add(queue)


@dataclass
class Queue:
    name: str
    world: World
    rows: dict[str, Row] = field(default_factory=dict)
    # Where a job stands: exactly one of these, or in its lane.
    pending: set[str] = field(default_factory=set)
    lanes: defaultdict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    active: dict[str, float] = field(default_factory=dict)
    schedule: dict[str, float] = field(default_factory=dict)
    dead: set[str] = field(default_factory=set)
    parents: dict[str, float] = field(default_factory=dict)
    # Lanes.
    ring: list[str] = field(default_factory=list)
    seats: Counter[str] = field(default_factory=Counter)
    paused: set[str] = field(default_factory=set)
    resting: dict[str, float] = field(default_factory=dict)
    parked: dict[str, float] = field(default_factory=dict)  # of these rests, those that somebody told
    limits: dict[str, int] = field(default_factory=dict)
    defaulted: dict[str, int] = field(default_factory=dict)
    weights: dict[str, int] = field(default_factory=dict)
    rates: dict[str, str] = field(default_factory=dict)
    credit: tuple[str, int] | None = None
    turns: int = 0
    # Settings and what limits have spent: `arrivals` of buckets by key, `spent` of the window.
    meta: dict[str, str] = field(default_factory=dict)
    arrivals: dict[str, float] = field(default_factory=dict)
    spent: int = 0
    # What hangs on ids and keys, and when keys end by themselves.
    dedup: dict[str, str] = field(default_factory=dict)
    done: dict[str, str] = field(default_factory=dict)
    locks: dict[str, str] = field(default_factory=dict)
    logs: dict[str, list[str]] = field(default_factory=dict)
    lives: dict[str, float] = field(default_factory=dict)
    # Totals, tokens, repeats, the outbox, and what effects wrote.
    wakes: int = 0
    totals: Counter[str] = field(default_factory=Counter)
    repeats: dict[str, dict[str, str]] = field(default_factory=dict)
    slots: dict[str, float] = field(default_factory=dict)
    parts: dict[str, str] = field(default_factory=dict)
    outbox: list[str] = field(default_factory=list)
    sent: int = 0
    notes: Counter[str] = field(default_factory=Counter)
    events: list[str] = field(default_factory=list)

    @property
    def stopped(self) -> bool:
        return "paused" in self.meta

    def wake(self) -> None:
        """One parked worker shall look."""
        self.wakes = min(MOST_WAKES, self.wakes + 1)

    def live(self, key: str, ms: float) -> None:
        """The key ends `ms` from now."""
        self.lives[key] = self.world.after(ms)

    # A lane's right to be served.

    def may_serve(self, lane: str) -> bool:
        full = self.seats[lane] >= self.limits.get(lane, inf)
        return bool(self.lanes[lane]) and lane not in self.paused and lane not in self.resting and not full

    def visit(self, lane: str | None) -> None:
        """The lane stands in the ring exactly when it may be served; it comes in at the tail, and wakes a worker."""
        if lane is None:
            return
        if not self.may_serve(lane):
            if lane in self.ring:
                self.ring.remove(lane)
        elif lane not in self.ring:
            self.ring.append(lane)
            self.wake()

    def idle(self, lane: str | None) -> None:
        """A lane without work and without jobs in flight forgets the ceiling that it had by default."""
        if lane in self.defaulted and not self.seats[lane] and not self.lanes[lane]:
            self.forget_default(lane)

    def forget_default(self, lane: str) -> None:
        """The ceiling by default goes, if it is still the one that was written."""
        if self.limits.get(lane) == self.defaulted.pop(lane):
            del self.limits[lane]

    def rest(self, lane: str, until: float) -> None:
        """The lane was told to rest; a longer rest stays."""
        for rests in (self.resting, self.parked):
            rests[lane] = max(rests.get(lane, 0), until)

    def end_rest(self, lane: str) -> None:
        self.resting.pop(lane, None)
        self.parked.pop(lane, None)

    def changed(self, lane: str | None) -> None:
        self.visit(lane)
        self.idle(lane)

    # Places.

    def backlog(self, lane: str | None) -> list[str]:
        return sorted(self.pending if lane is None else self.lanes[lane])

    def put(self, job_id: str) -> None:
        """The job waits to be claimed."""
        row = self.rows[job_id]
        row["state"] = "pending"
        lane = row.lane
        if lane is None:
            self.pending.add(job_id)
            self.wake()
            return
        default = self.meta.get("lane_limit")
        if default and not self.lanes[lane] and lane not in self.limits:
            self.limits[lane] = int(default)
            self.defaulted[lane] = int(default)
        self.lanes[lane].add(job_id)
        self.visit(lane)

    def put_off(self, job_id: str, due: float) -> None:
        """The job waits for a time; a worker is woken when it is the next one due."""
        self.rows[job_id]["state"] = "scheduled"
        self.schedule[job_id] = due
        if job_id == min(self.schedule, key=lambda i: (self.schedule[i], i)):
            self.wake()

    def take_out(self, job_id: str) -> None:
        """Out of wherever it waits; not out of those in flight."""
        lane = self.rows[job_id].lane
        self.pending.discard(job_id)
        self.schedule.pop(job_id, None)
        self.dead.discard(job_id)
        self.parents.pop(job_id, None)
        if lane:
            self.lanes[lane].discard(job_id)

    def ripe(self, times: dict[str, float]) -> list[str]:
        """What is due, the longest due first."""
        now = self.world.now
        return sorted((i for i, at in times.items() if at <= now), key=lambda i: (times[i], i))

    # Idempotency keys.

    def keep_key(self, key: str | None, job_id: str, ms: float) -> None:
        if key and self.dedup.get(key) == job_id:
            self.live(f"de:{key}", ms)

    def end_key(self, key: str, job_id: str, ms: float) -> None:
        """The job was completed: its key holds on without a row."""
        if self.dedup.get(key) == job_id:
            self.done[key] = job_id
            self.live(f"done:{key}", ms)

    def holder(self, key: str) -> str | None:
        """Who holds the key: nobody, when the job is gone uncompleted, or needed the key only until its claim."""
        job_id = self.dedup.get(key)
        row = self.rows.get(job_id or "")
        if row is None:
            return job_id if self.done.get(key) == job_id else None
        past = row.get("dedup") == key and "dedup_ms" not in row and row.token != "0"
        return None if past else job_id

    def free_key(self, key: str | None, job_id: str) -> None:
        if key and self.dedup.get(key) == job_id:
            del self.dedup[key], self.lives[f"de:{key}"]

    def drop(self, job_id: str) -> None:
        """The row goes with everything that hangs on the id."""
        del self.rows[job_id]
        self.logs.pop(job_id, None)
        self.locks.pop(job_id, None)
        self.lives.pop(f"job:{job_id}:logs", None)
        self.lives.pop(f"job:{job_id}:lock", None)
