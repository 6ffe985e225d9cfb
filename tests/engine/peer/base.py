"""What both engines hold in a story, and the look at the books after every step."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Collection
from dataclasses import fields

from codemojex.engine.inspection.audit import audit
from codemojex.engine.jobs.jobs import Job
from tests.engine.bench import Bench, lane
from tests.engine.peer.switches import OFF
from tests.support.peer import Found, Habits, Peer

LANES = [lane(i) for i in range(3)]
HOUR = 3_600_000
CAP = 2
Held = tuple[Bench, Job]


def habits() -> Habits:
    """P's habits, without those that our engine does not survive yet."""
    return Habits(**{field.name: field.name not in OFF for field in fields(Habits)})


class Base:
    """The two engines, what each holds, and what became of every job."""

    def __init__(self, home: Bench, away: Bench, seed: int) -> None:
        self.chance = random.Random(seed)
        self.benches = [home, away]
        self.peers = {bench.queue: Peer(bench.bus, bench.queue, habits()) for bench in self.benches}
        self.ours: list[Held] = []  # late holders too
        self.spent: list[Held] = []  # settled: a repeat must change nothing
        self.theirs: list[tuple[Peer, Found]] = []
        self.known: dict[str, Bench] = {}
        self.family: set[str] = set()  # jobs of flows
        self.done: Counter[str] = Counter()
        self.ended_here: set[str] = set()
        self.repeats: set[tuple[str, str]] = set()
        self.slots = 0
        self.failed: Counter[str] = Counter()  # attempts of this life that failed, on either side
        self.asked: set[str] = set()  # somebody wants their end, in this life
        self.dead: set[str] = set()
        self.died: set[str] = set()  # ever
        self.flat_seats = False  # P took or kept a seat that it did not write down
        self.log: list[str] = []

    async def look(self) -> None:
        """Nothing is wrong in either queue's books, but for what P's habits explain."""
        if self.flat_seats:
            for bench in self.benches:
                await bench.run("audit_active", 1)
            self.flat_seats = False
        for bench in self.benches:
            wrong = [v for v in await audit(bench.bus, bench.queue) if not explained(v.what)]
            assert not wrong, "\n".join([*(f"{v.subject}: {v.what}" for v in wrong), *self.log])
        twice = [job_id for job_id, times in self.done.items() if times > 1]
        assert not twice, f"completed twice: {twice} {self.log}"
        await self.look_at_the_dead()
        held: list[tuple[Peer, Found]] = []
        for peer, found in self.theirs:
            row = await self.bench(peer.queue).row(found.id)
            if row.get("attempts") == found.token and row["state"] in ("active", "pending"):
                held.append((peer, found))
        self.theirs = held

    async def look_at_the_dead(self) -> None:
        """Nobody died of a request that was made in an earlier life."""
        before, self.dead = self.dead, set()
        for bench in self.benches:
            for job_id in await self.ids(bench, "dead"):
                self.dead.add(job_id)
                if job_id not in before:
                    reason = (await bench.row(job_id)).get("last_error", "")
                    assert job_id in self.asked or not reason.startswith("cancelled"), (job_id, reason, self.log)
        self.asked -= self.dead
        self.died |= self.dead

    def bench(self, queue: str) -> Bench:
        return next(bench for bench in self.benches if bench.queue == queue)

    def slot(self) -> float:
        """A slot of a repeat that is over, and of no other one: a slot's id says its time, not its queue."""
        self.slots += 1
        return time.time() * 1000 - HOUR / 2 + self.slots

    def any(self) -> tuple[Bench, Peer]:
        bench = self.chance.choice(self.benches)
        return bench, self.peers[bench.queue]

    async def ids(self, bench: Bench, key: str) -> list[str]:
        """The members of one of a queue's sets."""
        return [member.decode() for member in await bench.raw("ZRANGE", key, 0, -1)]

    async def lapse(self, bench: Bench, but: Collection[str] = ()) -> None:
        """About half of the leases run out."""
        for job_id in await self.ids(bench, "active"):
            if job_id not in but and self.chance.random() < 0.5:
                await bench.raw("ZADD", "active", "XX", 1, job_id)

    async def a_dead_letter(self) -> tuple[Bench, str] | None:
        """A dead letter that may live again; a flow's members stay as they are, because P counts without looking."""
        bench, _ = self.any()
        found = [i for i in await self.ids(bench, "dead") if i not in self.family]
        return (bench, self.chance.choice(found)) if found else None


def explained(what: str) -> bool:
    """A finding that P's habits make, and that our next claim or beat puts right."""
    flat = "stands in the flat backlog, but belongs to lane" in what
    return flat or ("stall_leaves_ring" not in OFF and what.startswith("ring: has work and a right"))
