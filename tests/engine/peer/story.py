"""One random story and its end: whoever is chosen works everything off.

Each job was completed once or is a dead letter, and nothing is left. A story is its seed: the same one is told again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from codemojex.engine.inspection import admin
from codemojex.engine.jobs.outcome import Complete
from codemojex.engine.lanes import lanes, limits
from codemojex.engine.maintenance.pump import Pump
from codemojex.engine.repeats import repeats
from tests.engine.bench import LEASE, Bench
from tests.engine.peer.base import LANES
from tests.engine.peer.ours import Ours
from tests.engine.peer.switches import OFF
from tests.engine.peer.theirs import Theirs

ROUNDS = 100  # a story that is not worked off by then is stuck
Step = Callable[["Story"], Awaitable[None]]


class Story(Ours, Theirs):
    """Both engines, so many steps, and the end."""

    async def tell(self, steps: int) -> None:
        """So many steps with a look at the books after each, then the end."""
        names = [name for name, weight in WEIGHTS.items() for _ in range(weight) if name not in OFF]
        for peer in self.peers.values():
            await peer.limit(LANES[0], 1)  # ceilings matter from the start
        for _ in range(steps):
            name = self.chance.choice(names)
            self.log.append(name)
            await STEPS[name](self)
            await self.look()
        await self.work_off()

    async def leases_lapse(self) -> None:
        """Somebody was too slow."""
        await self.lapse(self.any()[0])

    async def time_comes(self) -> None:
        """What waits for a time is due: jobs, slots, lanes that rest."""
        bench, _ = self.any()
        for key in ("schedule", "repeat", "resting"):
            for name in await self.ids(bench, key):
                at = f"{self.slot():.0f}" if key == "repeat" else 1
                await bench.raw("ZADD", key, "XX", at, name)

    # The end.

    async def work_off(self) -> None:
        """All is opened, and one side or both work until nothing is left; then every job has one end."""
        side = self.chance.choice(["ours", "theirs", "both"])
        self.log.append(f"worked off by {side}")
        for bench in self.benches:
            await admin.resume(bench.bus, bench.queue)
            await limits.set_concurrency(bench.bus, bench.queue, None)
            registered = set(await repeats.names(bench.bus, bench.queue))
            assert {name for queue, name in self.repeats if queue == bench.queue} <= registered, self.log
            for name in registered:
                await repeats.cancel(bench.bus, bench.queue, name)
            for name in await bench.raw("SMEMBERS", "paused"):
                await lanes.resume(bench.bus, bench.queue, name.decode())
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


WEIGHTS = {
    "our_jobs": 9,
    "our_claim": 12,
    "our_end": 9,
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
    "our_flow": 4,
    "our_interval": 1,
    "our_cron": 2,
    "our_default_ceiling": 3,
    "our_rest": 3,
    "their_jobs": 9,
    "their_claim": 14,
    "their_end": 7,
    "their_promotion": 3,
    "their_reap": 2,
    "their_stalled": 4,
    "their_reprocess": 3,
    "their_lane_rule": 2,
    "their_flow": 3,
    "their_delivery": 5,
    "their_interval": 1,
    "their_slots": 4,
    "leases_lapse": 4,
    "time_comes": 4,
}
STEPS: dict[str, Step] = {name: getattr(Story, name) for name in WEIGHTS}
