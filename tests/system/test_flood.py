"""Rooms share the workers fairly, workers share one budget, and one that sleeps through its lease is harmless."""

from __future__ import annotations

import asyncio
import itertools
import random
import re
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import pytest

from codemojex.engine import ids, keyspace
from codemojex.engine.inspection import metrics
from codemojex.engine.inspection.audit import audit
from codemojex.engine.streams import streams
from codemojex.engine.streams.record import Record
from codemojex.game.presets import GameSettings, settings_for
from codemojex.play import games, guesses, keys, rooms
from codemojex.play.context import Play
from codemojex.play.games import GameSnapshot, Opened
from codemojex.play.guesses import Accepted
from codemojex.play.people import players
from codemojex.play.people.players import Player
from tests.support.databases import migrated_database, postgres_server
from tests.support.valkey import ValkeyServer
from tests.system.fleet import fleet_database, ground, until

__all__ = ["fleet_database", "migrated_database", "postgres_server"]
pytestmark = [pytest.mark.system, pytest.mark.timeout(600)]

QUEUE = "cm"
LONG = settings_for("expert", "race", tries=100, feedback=())  # nobody cracks six of twenty-four by chance
FLOOD, ROOMS, EACH = 20_000, 30, 10
BATCH = 100


@dataclass
class Room:
    """A room with a game, people who never guess right, and a count of their guesses."""

    play: Play
    game: GameSnapshot
    people: list[Player]
    secret: tuple[str, ...]
    sent: Any = field(default_factory=itertools.count)
    accepted: list[str] = field(default_factory=list[str])
    chance: random.Random = field(default_factory=lambda: random.Random(7))

    @classmethod
    async def furnish(cls, play: Play, number: int, people: int, settings: GameSettings = LONG) -> Room:
        room = await rooms.room_for(play, -1_000_000 - number, None, "group", f"Room {number}")
        crowd = [await players.player_for(play, number * 1_000 + i, f"P{i}", "en") for i in range(1, people + 1)]
        opened = await games.open_game(play, room, crowd[0], settings, f"open-{number}")
        assert isinstance(opened, Opened)
        raw = await play.bus.execute("HGET", keys.secret(QUEUE, opened.game.id), "tokens")
        return cls(play, opened.game, crowd, msgspec.json.decode(raw, type=tuple[str, ...]))

    async def guess(self) -> None:
        number = next(self.sent)
        code = self.secret
        while code == self.secret:
            code = tuple(self.chance.sample(self.game.settings.palette, self.game.settings.length))
        answer = await guesses.submit(self.play, self.game, self.people[number % len(self.people)], code, f"r{number}")
        assert isinstance(answer, Accepted), answer
        self.accepted.append(answer.guess_id)

    async def guesses(self, count: int) -> None:
        for first in range(0, count, BATCH):
            await asyncio.gather(*(self.guess() for _ in range(min(BATCH, count - first))))


async def scored(play: Play) -> list[Record]:
    """Every `guess.scored` of the feed, in the order in which the scores were given."""
    return [record for record in await feed(play) if record.text("kind") == "guess.scored"]


async def feed(play: Play) -> list[Record]:
    records: list[Record] = []
    while True:
        after = f"({records[-1].stream_id}" if records else "-"
        page = await streams.read(play.bus, QUEUE, keys.FEED, after, count=1_000)
        records += page
        if len(page) < 1_000:
            return records


async def scored_count(play: Play, game: GameSnapshot) -> int:
    """How many guesses of a game are scored: those accepted less those that wait."""
    outstanding = keys.of_game(play.options, game.id, game.room)[7]
    taken, waiting = await play.bus.pipeline([("HGET", keys.game(QUEUE, game.id), "seq"), ("ZCARD", outstanding)])
    return int(taken or 0) - waiting


async def footprint(play: Play, game: GameSnapshot) -> dict[str, int]:
    """How much scoring has written for a game."""
    names = keys.of_game(play.options, game.id, game.room)
    reads = [("XLEN", names[1]), ("XLEN", names[2]), ("HLEN", names[6]), ("HGET", names[3], "seq")]
    found = await play.bus.pipeline(reads)
    return dict(zip(("feed", "stream", "requests", "seq"), map(int, found), strict=True))


async def test_thirty_rooms_are_scored_before_the_flooding_rooms_400th_guess(
    start_valkey: Callable[..., ValkeyServer], fleet_database: str, tmp_path: Path
) -> None:
    valkey = start_valkey()
    async with ground(valkey.url, fleet_database, tmp_path) as place:
        play = place.play
        flood = await Room.furnish(play, 1, people=FLOOD // 100)
        others = [await Room.furnish(play, 2 + i, people=2) for i in range(ROOMS)]
        await flood.guesses(FLOOD)
        assert (await metrics.counts(play.bus, QUEUE)).pending == FLOOD
        for room in others:
            await room.guesses(EACH)
        games_of = {ids.rebrand(guess, "JOB"): room.game.id for room in (flood, *others) for guess in room.accepted}

        async def look() -> bool:
            place.fleet.check()
            counts = [await scored_count(play, room.game) for room in (flood, *others)]
            return counts[0] >= 400 and min(counts[1:]) == EACH

        async with witness(valkey) as seen:
            for number in (1, 2):
                await place.fleet.start(f"score-{number}", "score")
            await until(look, 240, place.fleet.report)

        small = {room.game.id for room in others}
        order = [record.text("game") for record in await scored(play)]
        assert Counter(game for game in order if game in small) == dict.fromkeys(small, EACH)
        assert before_the_last(order, small)[flood.game.id] < 400
        # No worker's pace has a say in this: a lane has one job per turn of the rota, and the flood came first.
        handed_out = [games_of.get(job, "") for job in seen.order]
        assert before_the_last(handed_out, small)[flood.game.id] <= EACH + 1
        assert await audit(play.bus, QUEUE) == []


def before_the_last(order: Sequence[str], games: set[str]) -> Counter[str]:
    """How often each game stands in `order` until the last of `games` does."""
    return Counter(order[: max(place for place, game in enumerate(order) if game in games)])


MAX, WINDOW_MS, WORKERS = 60, 500, 4
BUSY_ROOMS, BUSY_EACH = 12, 80
LATE = ("Stale()", "Gone()")
TICK_MS = 2.0  # the server counts life times in whole milliseconds


async def test_four_worker_processes_share_one_budget_per_window(
    start_valkey: Callable[..., ValkeyServer], fleet_database: str, tmp_path: Path
) -> None:
    """The server's own record of what its scripts did says when each window began and each job was handed out."""
    valkey = start_valkey()
    limit = {"guess_rate_max": MAX, "guess_rate_duration_ms": WINDOW_MS, "log_level": "debug"}
    async with ground(valkey.url, fleet_database, tmp_path, **limit) as place:
        play, fleet = place.play, place.fleet
        crowd = [await Room.furnish(play, 1 + i, people=2) for i in range(BUSY_ROOMS)]
        for room in crowd:
            await room.guesses(BUSY_EACH)
        async with witness(valkey) as seen:
            for number in range(WORKERS):
                await fleet.start(f"score-{number}", "score", score_concurrency=20)

            async def look() -> bool:
                fleet.check()
                return all([await scored_count(play, room.game) == BUSY_EACH for room in crowd])

            await until(look, 240, fleet.report)
        assert len(await scored(play)) == BUSY_ROOMS * BUSY_EACH
        idle = [m.name for m in fleet.members.values() if not any(e["event"] == "worker.claimed" for e in m.lines())]
        assert not idle, "not every process took part"

    assert seen.outside == 0, "jobs were handed out while no window was open"
    assert sum(seen.windows.values()) == BUSY_ROOMS * BUSY_EACH
    assert max(seen.windows.values()) == MAX, seen.windows  # never above, and it is what holds the workers back
    assert all(later - earlier >= WINDOW_MS - TICK_MS for earlier, later in itertools.pairwise(seen.windows))


@dataclass
class Seen:
    """Jobs in the order in which they were handed out; how many by the moment (ms) at which their window of the
    budget began, and how many while none was open."""

    order: list[str] = field(default_factory=list[str])
    windows: dict[float, int] = field(default_factory=dict[float, int])
    outside: int = 0

    def add(self, at_ms: float, opens: bool, jobs: int) -> None:
        """One script that ran at `at_ms` handed out so many jobs, and opened a window or did not."""
        if opens:
            self.windows[at_ms] = 0
        latest = max(self.windows, default=float("-inf"))
        if at_ms - latest <= WINDOW_MS + TICK_MS:
            self.windows[latest] += jobs
        else:
            self.outside += jobs


@asynccontextmanager
async def witness(valkey: ValkeyServer) -> AsyncIterator[Seen]:
    """Read the server's MONITOR during the block; the answer is complete behind it."""
    seen = Seen()
    reader, writer = await asyncio.open_unix_connection(str(valkey.socket_path), limit=1 << 22)
    writer.write(b"MONITOR\r\n")
    assert await reader.readline() == b"+OK\r\n"
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(listen(reader, seen))
        yield seen
        writer.write(b"PING\r\n")  # its answer ends the listening, after everything before it
    writer.close()


async def listen(reader: asyncio.StreamReader, seen: Seen) -> None:
    """The commands of a script follow the call of the script; a life time for the counter opens a window."""
    space = keyspace.of(QUEUE)
    head = re.compile(r"\+(\d+\.\d+) \[\d+ (\S+)\] ")
    hands_out = f'"HSET" "{space.key("job:")}'
    began_ms, opens, jobs = 0.0, False, 0
    while not (line := (await reader.readline()).decode(errors="replace")).startswith("+PONG"):
        if not (found := head.match(line)):
            continue
        said = line[found.end() :]
        if found[2] != "lua":
            seen.add(began_ms, opens, jobs)
            began_ms, opens, jobs = float(found[1]) * 1000, False, 0
        elif said.startswith(hands_out) and '"state" "active"' in said:
            jobs += 1
            seen.order.append(said[len(hands_out) :].partition('"')[0])
        elif said.upper().startswith(f'"PEXPIRE" "{space.key("limiter").upper()}"'):
            opens = True
    seen.add(began_ms, opens, jobs)


async def test_worker_that_sleeps_through_its_lease_changes_nothing_when_it_wakes(
    start_valkey: Callable[..., ValkeyServer], fleet_database: str, tmp_path: Path
) -> None:
    settings = {"lease_ms": 1_000, "guess_rate_max": 0, "log_level": "debug"}
    async with ground(start_valkey().url, fleet_database, tmp_path, **settings) as place:
        play, fleet = place.play, place.fleet
        room = await Room.furnish(play, 1, people=100)
        active = keyspace.of(QUEUE).key("active")
        await fleet.start("sleeper", "score", score_concurrency=200)
        await fleet.ready()

        async def asleep_with_work() -> int:
            """Give the worker work and stop it; the number of jobs that it holds now, 0 when it was faster."""
            await room.guesses(200)
            for _ in range(2_000):
                if await play.bus.execute("ZCARD", active):
                    break
            fleet.freeze("sleeper")
            await play.bus.execute("PING")  # what it sent before is done
            held = await play.bus.execute("ZCARD", active)
            if not held:
                fleet.thaw("sleeper")
            return held

        for _ in range(40):
            if held := await asleep_with_work():
                break
        assert held, "the worker was never caught with work in its hands"

        async def done() -> bool:
            fleet.check()
            return await metrics_idle(play)

        await fleet.start("awake", "score")
        await until(done, 180, fleet.report)
        before = await footprint(play, room.game)
        assert await scored_count(play, room.game) == len(room.accepted)

        fleet.freeze("awake")  # what is done from now on is the sleeper's doing
        fleet.thaw("sleeper")
        await room.guess()

        async def woken() -> bool:
            """It works again, and let go of what it held: lost leases, refused results, a claim's lost answer."""
            told = fleet.members["sleeper"].lines()
            late = {e["job"] for e in told if e["event"] == "worker.lease_lost" or e.get("verdict") in LATE}
            faults = [e for e in told if e["event"] == "worker.fault"]
            return (len(late) >= held or bool(faults)) and await scored_count(play, room.game) == len(room.accepted)

        await until(woken, 120, fleet.report)
        after = await footprint(play, room.game)
        assert {name: after[name] - before[name] for name in ("feed", "stream", "requests", "seq")} == {
            "feed": 2,  # the new guess was accepted and scored
            "stream": 2,
            "requests": 1,
            "seq": 1,
        }
        once = Counter(msgspec.json.decode(record.fields["data"])["guess"] for record in await scored(play))
        assert len(once) == after["seq"]
        assert set(once.values()) == {1}
        assert await audit(play.bus, QUEUE) == []


async def metrics_idle(play: Play) -> bool:
    """Whether no job of the queue waits or is in flight."""
    counts = await metrics.counts(play.bus, QUEUE)
    return not counts.pending and not counts.active
