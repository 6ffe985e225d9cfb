"""P's steps. Where P's own habit would lose a job all by itself, the story keeps P from it, and says so."""

from __future__ import annotations

from tests.engine.bench import LEASE
from tests.engine.peer.base import CAP, HOUR, LANES, Base


class Theirs(Base):
    """What P does."""

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
            case 0 | 1:
                self.done[found.id] += await peer.complete(found.id, found.token)
            case 2 if not late:
                await peer.delay(found.id, found.token, HOUR)
                self.flat_seats = True
            case _:
                if await peer.retry(found.id, found.token, HOUR, CAP, "no") == "scheduled":
                    self.failed[found.id] += not late  # a late one may be in our books, as a lapse
                    if "cancel" in await bench.row(found.id):
                        self.asked.add(found.id)  # a request of an earlier life too: the row does not tell them apart

    async def their_promotion(self) -> None:
        """P's pump brings back what is due."""
        await self.any()[1].promote()

    async def their_reap(self) -> None:
        """P takes back what lapsed, and leaves no trace of it."""
        await self.any()[1].reap()

    async def their_stalled(self) -> None:
        """P's other sweep counts lapses and buries; no parent hears of it, so it spares flows."""
        bench, peer = self.any()
        if found := await peer.claim_lane(LEASE):
            self.theirs.append((peer, found))
        await self.lapse(bench, self.family)
        lapsed = [i.decode() for i in await bench.raw("ZRANGEBYSCORE", "active", "-inf", 1)]
        spare = self.family & set(lapsed)
        await peer.stalled(9 if spare else self.chance.choice([1, 9]))

    async def their_reprocess(self) -> None:
        """An operator gives a dead letter another life, by P: it goes to the flat backlog."""
        if found := await self.a_dead_letter():
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
        await peer.repeat("theirs", HOUR, b"x")
        self.repeats.add((bench.queue, "theirs"))

    async def their_slots(self) -> None:
        """P fires what is due."""
        bench, peer = self.any()
        self.known |= dict.fromkeys(await peer.fire(), bench)
