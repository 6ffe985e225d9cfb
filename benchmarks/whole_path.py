"""`python -m benchmarks.whole_path`: what a guess costs on its whole way, from Telegram's update to the settled board.

All roles run in this process, over an embedded Valkey and SQLite, with every limit of sending off. A local Telegram
and its people are another process, whose CPU is not counted. The guesses wait at Telegram before the bot takes the
first: the bot is never idle until everything is scored and every board is shown.
"""

from __future__ import annotations

import argparse
import asyncio
import cProfile
import json
import random
import sys
import tempfile
import time
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import aiohttp

import codemojex.deferred_aiogram  # noqa: F401  # pyright: ignore[reportUnusedImport]  # before aiogram

# isort: split
from aiogram import Bot

from benchmarks.__main__ import machine
from codemojex.bot.intake import Intake, IntakeOptions
from codemojex.embedded import embedded_valkey
from codemojex.engine.cache.near_cache import NearCache
from codemojex.engine.clock import SystemClock
from codemojex.engine.ids import Minter
from codemojex.engine.inspection import metrics
from codemojex.engine.transport.connector import Connector
from codemojex.game.presets import settings_for
from codemojex.local_telegram import LocalTelegram
from codemojex.play import games, keys, rooms
from codemojex.play.caches import with_caches
from codemojex.play.context import Play
from codemojex.play.inbound import inbox
from codemojex.play.inbound.inbox import Incoming
from codemojex.play.people import players
from codemojex.play.views import views
from codemojex.roles import telegram as talking
from codemojex.roles.internal import Observers, Part, options_of, parts_of
from codemojex.settings import Settings
from codemojex.store.engine import close, open_store
from codemojex.store.migrate import migrate

PEOPLE = 5  # of each room
LIMIT_S = 300.0
IDLE_LOOKS = 4  # so many looks in a row find nothing left to do
LOOK_S = 0.05
Guess = tuple[int, int, str]  # who, in which chat, what


async def crowd(count: int) -> None:
    """The other process: a local Telegram with `count` groups, which sends the guesses that it reads."""
    telegram = LocalTelegram(strict=False)
    await telegram.start()
    async with aiohttp.ClientSession(telegram.url) as http:

        async def post(act: str, **body: object) -> Any:
            async with http.post(f"/control/{act}", json=body) as answer:
                return await answer.json()

        groups: dict[int, list[int]] = {}
        for number in range(count):
            members = [(await post("people", name=f"P{number}-{i}"))["user_id"] for i in range(PEOPLE)]
            groups[(await post("groups", title=f"Room {number}", members=members))["chat_id"]] = members
        print(json.dumps([telegram.url, telegram.token, list(groups.items())]), flush=True)
        while line := await asyncio.to_thread(sys.stdin.readline):
            for user_id, chat_id, text in json.loads(line):
                await post("send", user_id=user_id, chat_id=chat_id, text=text)
            print("sent", flush=True)
    await telegram.stop()


class Bench:
    """One bot with everything around it."""

    def __init__(self, play: Play, bot: Bot, other: Process, seed: int) -> None:
        self.play, self.bot, self._other = play, bot, other
        self.chance = random.Random(seed)
        self.games: dict[int, games.GameSnapshot] = {}
        self.secrets: dict[int, tuple[str, ...]] = {}
        self.sent = 0

    async def open(self, groups: Sequence[tuple[int, list[int]]]) -> None:
        """A race in every group, long enough for all guesses."""
        settings = replace(settings_for("quick", "race"), tries=100, duration_s=3_600)
        for chat_id, members in groups:
            room = await rooms.room_for(self.play, chat_id, None, "supergroup", f"Room {chat_id}")
            starter = await players.player_for(self.play, members[0], "Starter", "en")
            opened = await games.open_game(self.play, room, starter, settings, f"open-{chat_id}")
            assert isinstance(opened, games.Opened), opened
            self.games[chat_id] = game = opened.game
            place = keys.secret(keys.queue(self.play.options, game.id), game.id)
            self.secrets[chat_id] = tuple(json.loads(await self.play.bus.execute("HGET", place, "tokens")))

    def wrong(self, groups: Sequence[tuple[int, list[int]]], count: int) -> list[Guess]:
        """Guesses that crack nothing, room by room in turn, none of them tried before by the same person."""
        guesses: dict[Guess, None] = {}
        while len(guesses) < count:
            chat_id, members = groups[len(guesses) % len(groups)]
            settings = self.games[chat_id].settings
            code = tuple(self.chance.sample(settings.palette, settings.length))
            if code != self.secrets[chat_id]:
                guesses[self.chance.choice(members), chat_id, f"/guess {''.join(code)}"] = None
        return list(guesses)

    async def run(self, guesses: Sequence[Guess]) -> tuple[float, float]:
        """Have the crowd send the guesses, then work them all; seconds of wall and CPU time."""
        assert self._other.stdin is not None
        assert self._other.stdout is not None
        self._other.stdin.write(json.dumps(guesses).encode() + b"\n")
        assert await self._other.stdout.readline() == b"sent\n"
        self.sent += len(guesses)

        async def admit(items: Sequence[Incoming]) -> bool:
            return await inbox.admit(self.play, items)

        async def depth() -> int:
            return 0

        intake = Intake(self.bot, admit, depth, None, IntakeOptions(poll_timeout_s=1))
        wall, cpu = time.monotonic(), time.process_time()
        async with asyncio.timeout(LIMIT_S), asyncio.TaskGroup() as group:
            group.create_task(intake.run())
            end, used, idle = wall, cpu, 0
            while idle < IDLE_LOOKS:
                await asyncio.sleep(LOOK_S)
                if await self._busy():
                    idle = 0
                elif not (idle := idle + 1) > 1:
                    end, used = time.monotonic(), time.process_time()
            intake.stop()
        return end - wall, used - cpu

    async def _busy(self) -> bool:
        options = self.play.options
        for queue in (options.inbox, options.guesses, options.outbound):
            counts = await metrics.counts(self.play.bus, queue)
            if counts.pending or counts.active or (queue == options.outbound and counts.scheduled):
                return True
        scored = [await views.view(self.play, game.id) for game in self.games.values()]
        return sum(row.score is not None for state in scored if state for row in state.rows) < self.sent


@asynccontextmanager
async def bench(count: int, seed: int) -> AsyncGenerator[tuple[Bench, list[tuple[int, list[int]]]]]:
    """Start everything but the intake."""
    async with AsyncExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="cmx-path-")))
        command = [sys.executable, "-m", "benchmarks.whole_path", "--crowd", "--rooms", str(count)]
        other = await asyncio.create_subprocess_exec(*command, stdin=PIPE, stdout=PIPE, limit=1 << 24)
        assert other.stdin is not None
        assert other.stdout is not None
        stack.push_async_callback(other.wait)
        stack.callback(other.stdin.close)
        url, token, groups = cast("tuple[str, str, list[Any]]", json.loads(await other.stdout.readline()))
        bus = await Connector.connect(await stack.enter_async_context(embedded_valkey(directory)))
        stack.push_async_callback(bus.close)
        database = f"sqlite+aiosqlite:///{directory}/store.db"
        await migrate(database)
        store = await open_store(database)
        stack.push_async_callback(close, store)
        settings = Settings(_env_file=None)  # pyright: ignore[reportCallIssue]
        near = await stack.enter_async_context(NearCache(bus))
        clock = SystemClock()
        play = with_caches(Play(bus, Minter(1, clock), clock, store, options=options_of(settings)), near)
        bot = await stack.enter_async_context(talking.bot_of(talking.Account(token, url), settings))
        desk = await talking.desk_of(play, bot, publish=False)
        here, watch = Bench(play, bot, other, seed), Observers()
        parts: list[Part] = [
            talking.part_of(role, settings, bot, desk, lambda: None, watch=watch) for role in ("updates", "send")
        ]
        for role in ("score", "feed", "clock"):
            parts += parts_of(role, settings, play, "bench", watch)
        async with asyncio.TaskGroup() as group:
            for part in parts:
                group.create_task(part.run())
            await here.open(groups)
            yield here, groups
            for part in parts:
                part.stop()


async def main(count: int, guesses: int, seed: int, profile: str | None) -> None:
    """Warm up with a tenth of the guesses, measure, and print."""
    async with bench(count, seed) as (here, groups):
        everything = here.wrong(groups, guesses + max(guesses // 10, count))
        await here.run(everything[guesses:])
        print(machine(None), flush=True)
        profiler = cProfile.Profile() if profile else None
        if profiler:
            profiler.enable()
        wall_s, cpu_s = await here.run(everything[:guesses])
        if profiler and profile:
            profiler.disable()
            profiler.dump_stats(profile)
    rate, cost = guesses / wall_s, cpu_s * 1000 / guesses
    print(f"{guesses} guesses in {count} rooms: {rate:.0f} guesses/s, {cost:.2f} ms of CPU per guess")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m benchmarks.whole_path", description=__doc__)
    parser.add_argument("--rooms", type=int, default=20, choices=range(1, 201), metavar="1…200")
    parser.add_argument("--guesses", type=int, default=2_000, choices=range(20, 10_001), metavar="20…10000")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--profile", metavar="FILE", help="write a cProfile; the figures are then those of a slower run"
    )
    parser.add_argument("--crowd", action="store_true", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    asyncio.run(
        crowd(chosen.rooms) if chosen.crowd else main(chosen.rooms, chosen.guesses, chosen.seed, chosen.profile)
    )
