"""A claim: the rota of lanes and the flat backlog in turn, within every limit.

Each lane at the ring's head hands out up to its weight and goes to the tail; flat work has its turn when every lane
of the ring has had one. A turn that a claim's bounds cut short is finished first, and counts once. A lane leaves the
ring when it is empty, at its ceiling, or has spent its pace.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from math import inf

from tests.engine.model.plain import flows, limits
from tests.engine.model.plain.state import Fresh, Queue

HOUR = 3_600_000


@dataclass
class Claim:
    """A claim on its way."""

    want: float
    max_bytes: float
    lease: Fresh
    mode: str
    bytes: int = 0
    credit: tuple[str, int] | None = None
    served: Counter[str] = field(default_factory=Counter)
    taken: list[str] = field(default_factory=list)
    dead: list[tuple[str, str]] = field(default_factory=list)

    @property
    def full(self) -> bool:
        return len(self.taken) >= self.want or self.bytes >= self.max_bytes


@dataclass(frozen=True)
class Claimed:
    """`limited`: about so many ms; `next_due`: about so many, None: nothing waits or nobody looked."""

    jobs: list[str] = field(default_factory=list)
    limited: float = 0
    next_due: float | None = None
    paused: bool = False


def promote(q: Queue) -> int:
    """What has rested or waited long enough comes back; how many jobs."""
    for lane in q.ripe(q.resting):
        q.end_rest(lane)
        q.visit(lane)
    due = q.ripe(q.schedule)
    for job_id in due:
        del q.schedule[job_id]
        q.put(job_id)
    return len(due)


def next_due(q: Queue) -> float | None:
    first = min([*q.schedule.values(), *q.resting.values()], default=None)
    return None if first is None else max(1, first - q.world.now)


def claim(q: Queue, n: int, lease_ms: int, max_bytes: float = inf, mode: str = "all") -> Claimed:
    if q.stopped:
        return Claimed(paused=True)
    if mode == "all":
        promote(q)
    units = limits.budget(q)
    room = int(q.meta["concurrency"]) - len(q.active) if "concurrency" in q.meta else inf
    want = min(n, units, room)
    c = Claim(want, max_bytes, q.world.after(lease_ms), mode)
    if want > 0:
        _rota(q, c)
    q.seats += c.served
    if c.taken:
        limits.spend(q, len(c.taken))
    full = len(c.taken) >= n or c.bytes >= max_bytes
    if mode == "all" and want > 0:
        left = bool(q.ring or q.pending)
        if not left:
            q.wakes = 0
        elif full and not q.wakes:
            q.wake()
    # Parents hear of it when the lanes are in order.
    for job_id, reason in c.dead:
        flows.failed(q, job_id, reason)
    limited = limits.limited_ms(q) if not full and len(c.taken) >= units else 0
    return Claimed(c.taken, limited, None if full else next_due(q))


def _rota(q: Queue, c: Claim) -> None:
    flat = q.backlog(None) if c.mode in ("all", "flat") else []
    ring, rest = ([], q.ring) if c.mode == "flat" else (list(q.ring), [])
    mixed = bool(flat and ring)
    turns = q.turns if mixed else 0
    if ring and q.weights:
        c.credit, q.credit = q.credit, None
        q.lives.pop("credit", None)
    while not c.full and (ring or flat):
        if flat and (not ring or (turns >= len(ring) and not c.credit)):
            turns = 0
            _hand_out(q, flat.pop(0), c)
            continue
        lane = ring.pop(0)
        turns += not (c.credit and c.credit[0] == lane)
        back = _turn(q, lane, c)
        ring[len(ring) if back == "tail" else 0 : 0] = [lane] if back else []
        c.credit = None
        if c.mode in ("lane", "whole") and c.taken:
            break
    if mixed:
        q.turns = turns
        q.live("turns", HOUR)
    q.ring = [*ring, *rest]


def _turn(q: Queue, lane: str, c: Claim) -> str | None:
    """One lane's turn; whether it stands at the ring's tail or head afterwards."""
    ceiling, seated = q.limits.get(lane, inf), q.seats[lane] + c.served[lane]
    pace, key = limits.pace(q, lane), f"pace:{lane}"
    units = limits.bucket(q, key, *pace) if pace else inf
    turn: float = q.weights.get(lane, 1)
    if c.credit and c.credit[0] == lane:
        turn = c.credit[1]
    if c.mode == "whole":
        turn = c.want
    quota, backlog, k = min(turn, ceiling - seated, units), q.backlog(lane), 0
    while k < quota and backlog and not c.full:
        k += _hand_out(q, backlog.pop(0), c)
    c.served[lane] += k
    if pace and k:
        limits.draw(q, key, pace[0], k)
    tired = units - k < 1
    if not backlog:
        if not seated + k:
            q.idle(lane)
        return None
    if tired and pace:
        q.resting[lane] = q.world.after(limits.wait(q, key, *pace))
    if tired or seated + k >= ceiling:
        return None
    if k < turn and c.mode != "whole":
        q.credit = (lane, int(turn) - k)
        q.live("credit", HOUR)
        return "head"
    return "tail"


def _hand_out(q: Queue, job_id: str, c: Claim) -> bool:
    row = q.rows[job_id]
    q.take_out(job_id)
    reason = None
    if int(row.get("expires_at", 1 << 60)) <= q.world.now:
        reason = "expired"
    elif "cancel" in row:
        reason = f"cancelled: {row['cancel']}"
    if "dedup_ms" not in row:
        q.free_key(row.get("dedup"), job_id)
    if reason:
        flows.bury(q, job_id, reason)
        c.dead.append((job_id, reason))
        return False
    if "dedup_ms" in row:
        q.keep_key(row["dedup"], job_id, int(row["dedup_ms"]) + c.lease - q.world.now)
    row["state"], row["attempts"] = "active", str(int(row.token) + 1)
    q.active[job_id] = c.lease
    c.bytes += len(row["payload"])
    c.taken.append(job_id)
    return True
