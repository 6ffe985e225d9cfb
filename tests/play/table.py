"""A game table for tests: people, a room, and the queue worked step by step, so that a test decides what runs when."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

from codemojex.engine.cache.near_cache import NearCache
from codemojex.engine.clock import SystemClock
from codemojex.engine.ids import Minter
from codemojex.engine.jobs import claims, settlement
from codemojex.engine.jobs.jobs import Job
from codemojex.engine.jobs.outcome import Retry
from codemojex.engine.jobs.settlement import Settlement, SettleVerdict
from codemojex.engine.transport.connector import Connector
from codemojex.game.events import Event
from codemojex.game.fold import GameState
from codemojex.game.presets import GameSettings, settings_for
from codemojex.play import games, guesses, keys, rooms, scoring
from codemojex.play.caches import with_caches
from codemojex.play.context import Options, Play
from codemojex.play.games import GameSnapshot, Opened
from codemojex.play.guesses import Accepted
from codemojex.play.people import players
from codemojex.play.people.players import Player
from codemojex.play.rooms import Room
from codemojex.play.views import views
from codemojex.store.engine import Store
from codemojex.store.records import StreamRecord

LEASE_MS = 60_000
_node = itertools.count(1)


@dataclass
class GameTable:
    """One room with Ada, Boris and Chen; `claim`, `settle` and `work` move its queue."""

    play: Play
    room: Room
    people: dict[str, Player]
    requests: Any = field(default_factory=itertools.count)

    @classmethod
    async def lay(cls, bus: Connector, queue: str, store: Store, near: NearCache) -> GameTable:
        """Seat the people; the caches are joined to the play but used only once `near` is entered."""
        clock = SystemClock()
        options = Options(guesses=queue, outbound=f"{queue}.out")
        play = Play(bus, Minter(next(_node) % 1000, clock), clock, store, options=options)
        room = await rooms.room_for(play, -100_000 - next(_node), None, "group", "The Den")
        people = {
            name: await players.player_for(play, 1_000 + number, name, "en")
            for number, name in enumerate(("Ada", "Boris", "Chen"))
        }
        return cls(with_caches(play, near), room, people)

    def with_options(self, **options: Any) -> GameTable:
        """The same table under other options."""
        return replace(self, play=replace(self.play, options=replace(self.play.options, **options)))

    @property
    def queue(self) -> str:
        return keys.queue(self.play.options, self.room.id)

    async def open(
        self, settings: GameSettings | None = None, *, request: str = "open-1", by: str = "Ada"
    ) -> GameSnapshot:
        opened = await games.open_game(
            self.play, self.room, self.people[by], settings or settings_for("quick", "race"), request
        )
        assert isinstance(opened, Opened)
        return opened.game

    async def secret(self, game: GameSnapshot) -> tuple[str, ...]:
        raw = await self.play.bus.execute("HGET", keys.secret(self.queue, game.id), "tokens")
        return msgspec.json.decode(raw, type=tuple[str, ...])

    async def wrong(self, game: GameSnapshot, number: int = 1) -> tuple[str, ...]:
        """A guess that is not the secret, another one for each number: the secret rotated, then in other orders."""
        secret = await self.secret(game)
        rotations = [secret[n:] + secret[:n] for n in range(len(secret))]
        if number < len(secret):
            return rotations[number]
        others = (code for code in itertools.permutations(secret) if code not in rotations)
        return next(itertools.islice(others, number - len(secret), None))

    async def guess(self, game: GameSnapshot, by: str, code: Sequence[str], request: str | None = None) -> Accepted:
        answer = await self.submit(game, by, code, request)
        assert isinstance(answer, Accepted), answer
        return answer

    async def submit(
        self, game: GameSnapshot, by: str, code: Sequence[str], request: str | None = None
    ) -> Accepted | guesses.NotAccepted:
        request = request or f"r{next(self.requests)}"
        return await guesses.submit(self.play, game, self.people[by], code, request)

    async def claim(self, n: int = 100) -> Sequence[Job]:
        return (await claims.claim_many(self.play.bus, self.queue, n, LEASE_MS)).jobs

    async def settle(self, jobs: Sequence[Job]) -> list[SettleVerdict]:
        """Handle the jobs and settle them, in the order given."""
        outcomes = await scoring.work(self.play, jobs)
        assert not any(isinstance(outcome, Retry) for outcome in outcomes), outcomes
        items = [Settlement(job.id, job.token, outcome) for job, outcome in zip(jobs, outcomes, strict=True) if outcome]
        verdicts = await settlement.settle_many(self.play.bus, self.queue, items, effects=scoring.effects())
        assert not any(isinstance(verdict, settlement.EffectFailure) for verdict in verdicts), verdicts
        return verdicts

    async def work(self) -> list[Any]:
        """Work the queue until nothing can be claimed; the replies of all effects."""
        replies: list[Any] = []
        for _ in range(1_000):
            jobs = await self.claim()
            if not jobs:
                return replies
            replies += [getattr(verdict, "reply", None) for verdict in await self.settle(jobs)]
        raise AssertionError("the queue never becomes empty")

    async def look_again(self, game: GameSnapshot) -> None:
        """Every look at the game that is ordered for later, but for the deadline, is due now."""
        schedule = f"emq:{{{self.queue}}}:schedule"
        deadline = await self.play.bus.execute("HGET", keys.game(self.queue, game.id), "deadline_job")
        for job in await self.play.bus.execute("ZRANGE", schedule, 0, -1):
            if job != deadline:
                await self.play.bus.execute("ZADD", schedule, 1, job)

    async def let_the_joining_end(self, game: GameSnapshot) -> None:
        """As if the time for others to join were over."""
        place = keys.game(self.queue, game.id)
        assert await self.play.bus.execute("HSET", place, "ends_ms", 1) == 0, "no time to join is running"
        await self.look_again(game)

    async def state(self, game: GameSnapshot) -> GameState:
        state = await views.view(self.play, game.id)
        assert state is not None
        return state

    async def fresh(self, game: GameSnapshot) -> GameSnapshot:
        found = await games.refresh(self.play, game.id)
        assert found is not None
        return found

    async def records(self, game: GameSnapshot) -> list[StreamRecord]:
        page = await views.page_after(self.play, game.id, "")
        return [item.record for item in page if isinstance(item, views.Told)]

    async def events(self, game: GameSnapshot) -> list[Event]:
        return [views.event_of(record) for record in await self.records(game)]

    async def kinds(self, game: GameSnapshot) -> list[str]:
        return [record.kind for record in await self.records(game)]
