"""Tells one story on two queues of its own, and takes them away."""

from __future__ import annotations

from tests.engine.bench import Bench
from tests.engine.flow_bench import there
from tests.engine.peer.story import Story

LENGTH = 60


async def tell(bench: Bench, seed: int) -> None:
    """One story. The audit reads every key of the server, so what was told leaves none behind."""
    home = Bench(bench.bus, f"{bench.queue}.{seed}")
    away = there(home, "far")
    await Story(home, away, seed).tell(LENGTH)
    for place in (home, away):
        await bench.bus.execute("UNLINK", place.space.key("wake"), *map(place.space.key, await place.keys()))
