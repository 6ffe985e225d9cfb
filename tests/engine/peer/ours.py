"""Our steps: every verb by which a program, a worker, a pump or an operator of ours touches a shared queue."""

from __future__ import annotations

from codemojex.engine.flows import flows, outbox
from codemojex.engine.flows.flows import Flow
from codemojex.engine.inspection import admin
from codemojex.engine.jobs import cancel, jobs, settlement
from codemojex.engine.jobs.jobs import Dedup, Duplicate, Enqueued, Job, NewJob, Scheduled
from codemojex.engine.jobs.outcome import Complete, Delay, Discard, GiveBack, Outcome, Park, Retry
from codemojex.engine.jobs.settlement import Policy, Settled
from codemojex.engine.lanes import lanes, limits
from codemojex.engine.maintenance import promotion, recovery
from codemojex.engine.repeats import repeats
from codemojex.engine.repeats.repeats import Repeat
from tests.engine.bench import LEASE, Bench
from tests.engine.peer.base import CAP, HOUR, LANES, Base
from tests.engine.peer.switches import OFF


class Ours(Base):
    """What our engine does."""

    async def our_jobs(self) -> None:
        """Some jobs come in at us: flat or in lanes, some later, some once per key."""
        bench, _ = self.any()
        for _ in range(self.chance.randint(1, 3)):
            key = None
            if self.chance.random() < 0.5:
                name = f"k{self.chance.randrange(2)}"
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
        some: list[Outcome] = [Complete(), Complete(b"r"), Retry("no", HOUR), Retry("no", HOUR), Delay(HOUR)]
        some += [Discard("no"), GiveBack()]
        return self.chance.choice(some if "our_rest" in OFF else [*some, Park(HOUR)])

    async def settle(self, bench: Bench, job: Job, outcome: Outcome) -> None:
        row = await bench.row(job.id)
        current = row.get("attempts") == job.token and row["state"] in ("active", "pending")
        verdict = await bench.settle(job, outcome, Policy(CAP))
        if isinstance(verdict, Settled):
            self.spent.append((bench, job))
            self.failed[job.id] += isinstance(outcome, Retry)
            # Whoever counted them, so many failures are the end.
            over = self.failed[job.id] >= CAP and isinstance(outcome, Retry)
            assert not (over and verdict.state == "scheduled"), f"{job.id} failed too often {self.log}"
            if verdict.state == "completed":
                self.done[job.id] += 1
                self.ended_here.add(job.id)
        elif job.id not in self.died:
            assert not current, f"the current token of {job.id} was refused: {verdict} {row} {self.log}"

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
        await promotion.promote(bench.bus, bench.queue)
        await recovery.recover(bench.bus, bench.queue, max_stalled=9)
        await outbox.deliver(bench.bus, bench.queue)
        fired = await repeats.fire_due(bench.bus, bench.queue)
        assert not fired.unreadable, self.log
        for some in fired.jobs.values():
            self.known |= dict.fromkeys(some, bench)

    async def our_deadly_recovery(self) -> None:
        """What lapsed once is dead."""
        bench, _ = self.any()
        await recovery.recover(bench.bus, bench.queue, max_stalled=1)

    async def our_cancel(self) -> None:
        """Somebody asks for the end of a job."""
        bench, _ = self.any()
        active = [i for i in await self.ids(bench, "active") if i not in self.family]
        rows = active or [i for i in self.known if i not in self.family]
        if rows:
            job_id = self.chance.choice(rows)
            self.asked.add(job_id)
            await cancel.request(self.known[job_id].bus, self.known[job_id].queue, job_id, "enough")

    async def our_reprocess(self) -> None:
        """An operator gives a dead letter another life, by us."""
        if found := await self.a_dead_letter():
            assert await admin.reprocess(found[0].bus, found[0].queue, found[1])
            self.failed[found[1]] = 0

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
        bench, _ = self.any()
        await self.register(bench, Repeat("every", repeats.Every(HOUR), b"x"))

    async def our_cron(self) -> None:
        """A repeated job that P cannot read."""
        bench, _ = self.any()
        when = repeats.Cron(f"{self.benches.index(bench)} 3 * * *")  # a slot's id says its time, not its queue
        await self.register(bench, Repeat("cron", when, b"x"))

    async def register(self, bench: Bench, what: Repeat) -> None:
        await repeats.register(bench.bus, bench.queue, what, first_in_ms=HOUR)
        self.repeats.add((bench.queue, what.name))

    async def our_default_ceiling(self) -> None:
        """A ceiling for every lane without one."""
        bench, _ = self.any()
        await limits.set_default_lane_limit(bench.bus, bench.queue, self.chance.choice([None, 1, 2]))

    async def our_rest(self) -> None:
        """A lane rests, because of somebody else's limit."""
        bench, _ = self.any()
        await lanes.park(bench.bus, bench.queue, self.chance.choice(LANES), HOUR)
