"""One random story of two engines on one bus: ours and the simulated P take turns on two queues, in any order.

After every step the audit finds nothing but what P's habits explain. At the end whoever is chosen works everything off:
each job was completed once or is a dead letter, and nothing is left. A story is its seed: the same one is told again.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import fields

from codemojex.engine import (
    admin,
    cancel,
    flows,
    jobs,
    lanes,
    limits,
    outbox,
    recovery,
    repeat,
    schedule,
    settlement,
)
from codemojex.engine.audit import audit
from codemojex.engine.flows import Flow
from codemojex.engine.jobs import Dedup, Duplicate, Enqueued, Job, NewJob, Scheduled
from codemojex.engine.outcome import Complete, Delay, Discard, GiveBack, Outcome, Park, Retry
from codemojex.engine.pump import Pump
from codemojex.engine.repeat import Repeat
from codemojex.engine.settlement import Policy, Settled
from tests.support.peer import Found, Habits, Peer

from .bench import LEASE, Bench, lane
from .peer_switches import OFF

LANES = [lane(i) for i in range(3)]
HOUR = 3_600_000
CAP = 4
ROUNDS = 100  # a story that is not worked off by then is stuck
Step = Callable[["Story"], Awaitable[None]]
Held = tuple[Bench, Job]


def habits() -> Habits:
    """P's habits, without those that our engine does not survive yet."""
    return Habits(**{field.name: field.name not in OFF for field in fields(Habits)})


class Story:
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
        self.flat_seats = False  # P took or kept a seat that it did not write down
        self.log: list[str] = []

    # Telling.

    async def tell(self, steps: int) -> None:
        """So many steps with a look at the books after each, then the end."""
        names = [name for name, weight in WEIGHTS.items() for _ in range(weight) if name not in OFF]
        for _ in range(steps):
            name = self.chance.choice(names)
            self.log.append(name)
            await STEPS[name](self)
            await self.look()
        await self.work_off()

    async def look(self) -> None:
        """Nothing is wrong in either queue's books, but for what P's habits explain."""
        if self.flat_seats:
            for bench in self.benches:
                await bench.run("audit_active", 1)
            self.flat_seats = False
        for bench in self.benches:
            wrong = [v for v in await audit(bench.bus, bench.queue) if not explained(v.what)]
            assert not wrong, "\n".join([*(f"{v.subject}: {v.what}" for v in wrong), *self.log])
        assert not [job for job, times in self.done.items() if times > 1], self.log
        held: list[tuple[Peer, Found]] = []
        for peer, found in self.theirs:
            row = await self.bench(peer.queue).row(found.id)
            if row.get("attempts") == found.token and row["state"] in ("active", "pending"):
                held.append((peer, found))
        self.theirs = held

    def bench(self, queue: str) -> Bench:
        return next(bench for bench in self.benches if bench.queue == queue)

    def any(self) -> tuple[Bench, Peer]:
        bench = self.chance.choice(self.benches)
        return bench, self.peers[bench.queue]

    async def ids(self, bench: Bench, key: str) -> list[str]:
        """The members of one of a queue's sets."""
        return [member.decode() for member in await bench.raw("ZRANGE", key, 0, -1)]

    async def dead(self) -> tuple[Bench, str] | None:
        """A dead letter that may live again; a flow's members stay as they are, because P counts without looking."""
        bench, _ = self.any()
        found = [i for i in await self.ids(bench, "dead") if i not in self.family]
        return (bench, self.chance.choice(found)) if found else None

    # Ours.

    async def our_jobs(self) -> None:
        """Some jobs come in at us: flat or in lanes, some later, some once per key."""
        bench, _ = self.any()
        for _ in range(self.chance.randint(1, 3)):
            key = None
            if self.chance.random() < 0.3:
                name = f"k{self.chance.randrange(3)}"
                key = self.chance.choice([Dedup(name, HOUR), Dedup(name, HOUR, "claim")])
            job = bench.job(
                lane=self.chance.choice([None, *LANES]),
                delay_ms=self.chance.choice([0, 0, 0, HOUR]),
                max_attempts=self.chance.choice([None, CAP]),
                dedup=key,
            )
            await self.put(bench, job)

    async def put(self, bench: Bench, job: NewJob) -> None:
        (verdict,) = await jobs.admit_many(bench.bus, bench.queue, [job])
        if isinstance(verdict, Duplicate):
            # Whoever holds a key is there, or was completed by us.
            row = await bench.row(verdict.of)
            assert row or verdict.of in self.ended_here, (verdict, self.log)
            assert not row or "dedup_ms" in row or row["attempts"] == "0", (verdict, row, self.log)
            return
        assert isinstance(verdict, Enqueued | Scheduled), verdict
        self.known[job.id] = bench

    async def our_claim(self) -> None:
        """We claim, and no ceiling is passed by that."""
        bench, _ = self.any()
        mode = self.chance.choice(["all", "all", "all", "flat", "lane"])
        some = (await bench.claim(self.chance.randint(1, 4), mode=mode)).jobs
        self.ours += [(bench, job) for job in some]
        active = [(await bench.row(i)).get("group") for i in await self.ids(bench, "active")]
        for name, limit in (await bench.raw("HGETALL", "glimit")).items():
            served = [job for job in some if job.lane == name.decode()]
            assert not served or active.count(name.decode()) <= int(limit), self.log

    async def our_end(self) -> None:
        """An attempt of ours ends, perhaps a late one."""
        if self.ours:
            bench, job = self.ours.pop(self.chance.randrange(len(self.ours)))
            await self.settle(bench, job, self.outcome())

    def outcome(self) -> Outcome:
        some: list[Outcome] = [Complete(), Complete(b"r"), Complete(), Retry("no", HOUR), Delay(HOUR)]
        some += [Discard("no"), GiveBack()]
        return self.chance.choice(some if "our_rest" in OFF else [*some, Park(HOUR)])

    async def settle(self, bench: Bench, job: Job, outcome: Outcome) -> None:
        verdict = await bench.settle(job, outcome, Policy(CAP))
        if isinstance(verdict, Settled):
            self.spent.append((bench, job))
            if verdict.state == "completed":
                self.done[job.id] += 1
                self.ended_here.add(job.id)

    async def our_repeat_of_an_end(self) -> None:
        """The answer to a settlement was lost: it is sent again and changes nothing."""
        if self.spent:
            bench, job = self.chance.choice(self.spent)
            verdict = await bench.settle(job, self.outcome(), Policy(CAP))
            assert not isinstance(verdict, Settled), (job, verdict, self.log)

    async def our_beat(self) -> None:
        """One turn of our pump: promotion, recovery, the outbox, repeats."""
        bench, _ = self.any()
        await self.beat(bench)

    async def beat(self, bench: Bench) -> None:
        await schedule.promote(bench.bus, bench.queue)
        await recovery.recover(bench.bus, bench.queue, max_stalled=9)
        await outbox.deliver(bench.bus, bench.queue)
        fired = await repeat.fire_due(bench.bus, bench.queue)
        assert not fired.unreadable, self.log
        for some in fired.jobs.values():
            self.known |= dict.fromkeys(some, bench)

    async def our_deadly_recovery(self) -> None:
        """What lapsed once is dead."""
        bench, _ = self.any()
        await recovery.recover(bench.bus, bench.queue, max_stalled=1)

    async def our_cancel(self) -> None:
        """Somebody asks for the end of a job."""
        rows = [i for i in self.known if i not in self.family]
        if rows:
            job_id = self.chance.choice(rows)
            await cancel.request(self.known[job_id].bus, self.known[job_id].queue, job_id, "enough")

    async def our_reprocess(self) -> None:
        """An operator gives a dead letter another life, by us."""
        if found := await self.dead():
            assert await admin.reprocess(found[0].bus, found[0].queue, found[1])

    async def our_renewal(self) -> None:
        """We renew what we believe to hold."""
        bench, _ = self.any()
        held = [(job.id, job.token) for where, job in self.ours if where is bench]
        await settlement.renew_many(bench.bus, bench.queue, held, LEASE)

    async def our_lane_rule(self) -> None:
        """An operator's change to a lane, by us."""
        bench, _ = self.any()
        name = self.chance.choice(LANES)
        match self.chance.randrange(4):
            case 0:
                await lanes.pause(bench.bus, bench.queue, name)
            case 1:
                await lanes.resume(bench.bus, bench.queue, name)
            case 2:
                await lanes.limit(bench.bus, bench.queue, name, self.chance.choice([None, 1, 2]))
            case _:
                await lanes.weight(bench.bus, bench.queue, name, self.chance.choice([None, 2]))

    async def our_queue_rule(self) -> None:
        """The queue is paused or resumed, by us: P sees it as well."""
        bench, _ = self.any()
        await self.chance.choice([admin.pause, admin.resume, admin.resume])(bench.bus, bench.queue)

    async def our_concurrency(self) -> None:
        """A ceiling for all, which P does not know."""
        bench, _ = self.any()
        await limits.set_concurrency(bench.bus, bench.queue, self.chance.choice([None, 3]))

    async def our_move(self) -> None:
        """A waiting job moves to another lane."""
        bench, _ = self.any()
        waiting = [i for name in LANES for i in await self.ids(bench, f"g:{name}:pending")]
        waiting += [i for i in await self.ids(bench, "pending") if "group" in await bench.row(i)]
        if waiting:
            await lanes.move(bench.bus, bench.queue, self.chance.choice(waiting), self.chance.choice(LANES))

    async def our_flow(self) -> None:
        """A parent with two children, each in either queue."""
        bench, _ = self.any()
        parent = bench.job(lane=self.chance.choice([None, *LANES]))
        children: list[Flow] = []
        for _ in range(2):
            where = self.chance.choice(self.benches)
            child = where.job(lane=self.chance.choice([None, *LANES]))
            children.append(Flow(child, queue=where.queue, ignore_failure=self.chance.random() < 0.5))
            self.known[child.id] = where
        await flows.add(bench.bus, bench.queue, Flow(parent, children))
        self.known[parent.id] = bench
        self.family |= {parent.id, *(child.job.id for child in children)}

    async def our_interval(self) -> None:
        """A repeated job that both can read."""
        await self.register(Repeat("every", repeat.Every(HOUR), b"every"))

    async def our_cron(self) -> None:
        """A repeated job that P cannot read."""
        await self.register(Repeat("cron", repeat.Cron("0 3 * * *"), b"cron"))

    async def register(self, what: Repeat) -> None:
        bench, _ = self.any()
        await repeat.register(bench.bus, bench.queue, what, first_in_ms=HOUR)
        self.repeats.add((bench.queue, what.name))

    async def our_default_ceiling(self) -> None:
        """A ceiling for every lane without one."""
        bench, _ = self.any()
        await limits.set_default_lane_limit(bench.bus, bench.queue, self.chance.choice([None, 1, 2]))

    async def our_rest(self) -> None:
        """A lane rests, because of somebody else's limit."""
        bench, _ = self.any()
        await lanes.park(bench.bus, bench.queue, self.chance.choice(LANES), HOUR)

    # P's.

    async def their_jobs(self) -> None:
        """Jobs come in at P."""
        bench, peer = self.any()
        for _ in range(self.chance.randint(1, 3)):
            name = self.chance.choice([None, *LANES])
            delay = HOUR if name is None and self.chance.random() < 0.3 else None
            self.known[await peer.enqueue(b"x", name, delay)] = bench

    async def their_claim(self) -> None:
        """P claims flat work or one lane's turn."""
        bench, peer = self.any()
        flat = self.chance.random() < 0.5
        found = await (peer.claim_flat(LEASE) if flat else peer.claim_lane(LEASE))
        if found:
            self.theirs.append((peer, found))
            self.flat_seats |= flat and "group" in await bench.row(found.id)

    async def their_end(self) -> None:
        """An attempt of P's ends. P tells no parent of a late end and delays only what is in flight."""
        if not self.theirs:
            return
        peer, found = self.theirs.pop(self.chance.randrange(len(self.theirs)))
        bench = self.bench(peer.queue)
        late = await bench.raw("ZSCORE", "active", found.id) is None
        if late and found.id in self.family:
            return
        match self.chance.randrange(5):
            case 0 | 1 | 2:
                self.done[found.id] += await peer.complete(found.id, found.token)
            case 3 if not late:
                await peer.delay(found.id, found.token, HOUR)
                self.flat_seats = True
            case _:
                await peer.retry(found.id, found.token, HOUR, CAP, "no")

    async def their_promotion(self) -> None:
        """P's pump brings back what is due."""
        await self.any()[1].promote()

    async def their_reap(self) -> None:
        """P takes back what lapsed, and leaves no trace of it."""
        await self.any()[1].reap()

    async def their_stalled(self) -> None:
        """P's other sweep counts lapses and buries; no parent hears of it, so it spares flows."""
        bench, peer = self.any()
        spare = self.family & set(await self.ids(bench, "active"))
        await peer.stalled(9 if spare else self.chance.choice([1, 9]))

    async def their_reprocess(self) -> None:
        """An operator gives a dead letter another life, by P: it goes to the flat backlog."""
        if found := await self.dead():
            assert await self.peers[found[0].queue].reprocess(found[1])

    async def their_lane_rule(self) -> None:
        """An operator's change to a lane, by P."""
        _, peer = self.any()
        name = self.chance.choice(LANES)
        match self.chance.randrange(3):
            case 0:
                await peer.pause(name)
            case 1:
                await peer.resume(name)
            case _:
                await peer.limit(name, self.chance.choice([1, 2]))

    async def their_flow(self) -> None:
        """P adds a parent with two children, each in either queue."""
        bench, peer = self.any()
        places = [self.chance.choice(self.benches) for _ in range(2)]
        children = {f"c{i}".encode(): self.peers[place.queue] for i, place in enumerate(places)}
        parent, ids = await peer.add_flow(children, self.chance.choice(["fp", "id"]))
        self.known |= {parent: bench, **dict(zip(ids, places, strict=True))}
        self.family |= {parent, *ids}

    async def their_delivery(self) -> None:
        """P tells parents elsewhere."""
        await self.any()[1].deliver()

    async def their_interval(self) -> None:
        """P registers a repeated job."""
        bench, peer = self.any()
        await peer.repeat("theirs", HOUR, b"theirs")
        self.repeats.add((bench.queue, "theirs"))

    async def their_slots(self) -> None:
        """P fires what is due."""
        bench, peer = self.any()
        self.known |= dict.fromkeys(await peer.fire(), bench)

    # Time.

    async def leases_lapse(self) -> None:
        """Somebody was too slow."""
        bench, _ = self.any()
        for job_id in await self.ids(bench, "active"):
            if self.chance.random() < 0.5:
                await bench.raw("ZADD", "active", "XX", 1, job_id)

    async def time_comes(self) -> None:
        """What waits for a time is due: jobs, slots, lanes that rest."""
        bench, _ = self.any()
        for key in ("schedule", "repeat", "resting"):
            for name in await self.ids(bench, key):
                await bench.raw("ZADD", key, "XX", 1, name)

    # The end.

    async def work_off(self) -> None:
        """All is opened, and one side or both work until nothing is left; then every job has one end."""
        side = self.chance.choice(["ours", "theirs", "both"])
        self.log.append(f"worked off by {side}")
        for bench in self.benches:
            await admin.resume(bench.bus, bench.queue)
            await limits.set_concurrency(bench.bus, bench.queue, None)
            registered = set(await repeat.names(bench.bus, bench.queue))
            assert {name for queue, name in self.repeats if queue == bench.queue} <= registered, self.log
            for name in registered:
                await repeat.cancel(bench.bus, bench.queue, name)
            for name in LANES:
                await lanes.resume(bench.bus, bench.queue, name)
        for _ in range(ROUNDS):
            if await self.empty():
                break
            await self.time_comes_for_all()
            for bench in self.benches:
                await self.turn_of_our_pump(bench)
                await self.finish(bench, side)
            await self.look()
        assert await self.empty(), f"stuck: {await self.rest()}\n{self.log}"
        await self.count()

    async def time_comes_for_all(self) -> None:
        for bench in self.benches:
            for key in ("schedule", "active", "resting"):
                for name in await self.ids(bench, key):
                    await bench.raw("ZADD", key, "XX", 1, name)

    async def turn_of_our_pump(self, bench: Bench) -> None:
        """The real pump, one turn: it also heals what P left in disorder."""
        pump = Pump(bench.bus, bench.queue, max_stalled=99)
        turn = asyncio.create_task(pump.run())
        await asyncio.sleep(0)  # it has begun
        pump.stop()
        await asyncio.wait_for(turn, 30)

    async def finish(self, bench: Bench, side: str) -> None:
        peer = self.peers[bench.queue]
        if side != "theirs":
            for job in (await bench.claim(5)).jobs:
                await self.settle(bench, job, Complete())
        if side != "ours":
            await peer.deliver()
            for claim in (peer.claim_flat, peer.claim_lane):
                if found := await claim(LEASE):
                    if claim == peer.claim_flat and "group" in await bench.row(found.id):
                        await bench.run("audit_active", 1)
                    self.done[found.id] += await peer.complete(found.id, found.token)

    async def empty(self) -> bool:
        return not await self.rest()

    async def rest(self) -> dict[str, list[str]]:
        """What is not worked off: rows that are not dead letters, and entries of the outbox."""
        left: dict[str, list[str]] = {}
        for bench in self.benches:
            rows = [key[4:] for key in await bench.keys() if key.startswith("job:") and key.count(":") == 1]
            alive = [f"{i} {row}" for i in rows if (row := await bench.row(i))["state"] != "dead"]
            entries = [entry.decode() for entry in await bench.raw("LRANGE", "flow:outbox", 0, -1)]
            if alive or entries:
                left[bench.queue] = alive + entries
        return left

    async def count(self) -> None:
        """Each job has one end, and what counts waiting parents is empty."""
        dead = {i for bench in self.benches for i in await self.ids(bench, "dead")}
        lost = [i for i in self.known if not self.done[i] and i not in dead]
        assert not lost, f"lost: {lost}\n{self.log}"
        twice = [i for i in self.known if self.done[i] + (i in dead) != 1]
        assert not twice, f"ended twice: {twice}\n{self.log}"
        assert not self.done.keys() - self.known.keys(), self.log
        if "parents_gauge" not in OFF:
            assert not [i for bench in self.benches for i in await self.ids(bench, "parents")], self.log


def explained(what: str) -> bool:
    """A finding that P's habits make, and that our next claim or beat puts right."""
    flat = "stands in the flat backlog, but belongs to lane" in what
    return flat or ("stall_leaves_ring" not in OFF and what.startswith("ring: has work and a right"))


WEIGHTS = {
    "our_jobs": 6,
    "our_claim": 10,
    "our_end": 10,
    "our_repeat_of_an_end": 3,
    "our_beat": 4,
    "our_deadly_recovery": 1,
    "our_cancel": 2,
    "our_reprocess": 1,
    "our_renewal": 1,
    "our_lane_rule": 3,
    "our_queue_rule": 1,
    "our_concurrency": 1,
    "our_move": 1,
    "our_flow": 2,
    "our_interval": 1,
    "our_cron": 1,
    "our_default_ceiling": 1,
    "our_rest": 1,
    "their_jobs": 5,
    "their_claim": 10,
    "their_end": 10,
    "their_promotion": 3,
    "their_reap": 2,
    "their_stalled": 2,
    "their_reprocess": 3,
    "their_lane_rule": 2,
    "their_flow": 2,
    "their_delivery": 3,
    "their_interval": 1,
    "their_slots": 2,
    "leases_lapse": 4,
    "time_comes": 4,
}
STEPS: dict[str, Step] = {name: getattr(Story, name) for name in WEIGHTS}
