"""Two bots on one server: the second is refused, and under namespaces both play without hearing of each other.

Each bot has a local Telegram of its own, with the same ids of people and chats in both, and a store of its own.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from codemojex.engine.transport.connector import Connector
from codemojex.local_telegram import LocalTelegram
from codemojex.settings import ROLES
from codemojex.store.migrate import migrate
from tests.support.telegram import People
from tests.support.valkey import ValkeyServer
from tests.system.company import Company
from tests.system.fleet import Fleet, Member, until

pytestmark = [pytest.mark.system, pytest.mark.timeout(300)]
FIRST, SECOND = "4200000001:first-bots-secret-half", "4300000002:second-bots-secret-half"
END_S = 60.0
SHARED = {b"{emq}:version", b"{emq}:nodes", b"{emq}:queues"}


@dataclass
class Bot:
    """One bot: its Telegram and its process, which does everything."""

    name: str
    telegram: LocalTelegram
    fleet: Fleet

    async def start(self, **settings: object) -> Member:
        return await self.fleet.start(self.name, ",".join(ROLES), **settings)

    async def refusal(self, **settings: object) -> str:
        """Start it and wait until it has ended; the one line that it said."""
        member = await self.fleet.start(self.name, ",".join(ROLES), **settings)
        assert member.process is not None
        await asyncio.to_thread(member.process.join, END_S)
        assert member.process.exitcode == 1, self.fleet.report()
        text = member.log.read_text()
        assert "secret-half" not in text
        member.log.unlink()  # the next start has a log of its own
        [line] = [line for line in text.splitlines() if line.startswith("codemojex: ")]
        return line

    async def games(self) -> set[str]:
        """Every game that anything in this bot's Telegram names: messages, buttons, and the log of its calls."""
        async with People(self.telegram.url) as people:
            seen = json.dumps([await people.get("state"), await people.get("log")])
        return set(re.findall(r"GAM[0-9A-Za-z]{11}", seen))


@asynccontextmanager
async def a_bot(name: str, token: str, valkey_url: str, directory: Path) -> AsyncGenerator[Bot]:
    telegram = LocalTelegram(token=token, strict=False)
    await telegram.start()
    store = f"sqlite+aiosqlite:///{directory / f'{name}.db'}"
    await migrate(store)
    settings = {
        "BOT_TOKEN": token,
        "CODEMOJEX_TELEGRAM_API_URL": telegram.url,
        "CODEMOJEX_VALKEY_URL": valkey_url,
        "CODEMOJEX_DATABASE_URL": store,
        "CODEMOJEX_LOG_FORMAT": "json",
    }
    fleet = Fleet(directory, settings)
    try:
        yield Bot(name, telegram, fleet)
    finally:
        fleet.end()
        await telegram.stop()


async def play_to_the_end(bot: Bot) -> str:
    """A guess by buttons in a private chat, then a whole game in the group."""
    async with People(bot.telegram.url) as people:
        company = await Company.gather(people)
        solo = await company.play(company.dora, company.dora, "/play classic")
        await solo.tap(company.dora, "Dora", solo.palette[:6])
        await solo.scored()
        game, rows = await company.play_a_round(company.ada, "/play quick")
        await game.crack(company.three, rows)
        await game.result()
        return game.id


async def keys_of(bus: Connector) -> set[bytes]:
    return set(await bus.execute("KEYS", "*"))


async def test_the_second_bot_on_a_server_is_refused_and_a_new_token_of_the_first_is_not(
    start_valkey: Callable[..., ValkeyServer], tmp_path: Path
) -> None:
    url = start_valkey().url
    async with a_bot("first", FIRST, url, tmp_path) as first, a_bot("second", SECOND, url, tmp_path) as second:
        await first.start()
        await first.fleet.ready()
        line = await second.refusal()
        for part in ("bot 4200000001", "bot 4300000002", "database number", "CODEMOJEX_NAMESPACE"):
            assert part in line
        shared_store = first.fleet.settings["CODEMOJEX_DATABASE_URL"]
        line = await second.refusal(namespace="second", database_url=shared_store)
        assert "CODEMOJEX_DATABASE_URL" in line
        await play_to_the_end(first)  # nobody was disturbed
        bus = await Connector.connect(url)
        await bus.execute("FLUSHALL")
        await until(lambda: bus.execute("EXISTS", "cmx:{cm}:owner"), END_S, "the running bot writes whose it is again")
        await bus.close()
        assert "bot 4200000001" in await second.refusal()
        assert await first.fleet.dismiss() == {"first": 0}

    (tmp_path / "first.log").unlink()  # "working" in it would be that of the old process
    async with a_bot("first", f"{FIRST}-that-is-new", url, tmp_path) as renewed:
        await renewed.start()
        await renewed.fleet.ready()
        assert await renewed.fleet.dismiss() == {"first": 0}


async def test_bots_under_namespaces_share_a_server_and_nothing_crosses(
    start_valkey: Callable[..., ValkeyServer], tmp_path: Path
) -> None:
    url = start_valkey().url
    async with AsyncExitStack() as stack:
        bots = [
            await stack.enter_async_context(a_bot(name, token, url, tmp_path))
            for name, token in (("plain", FIRST), ("second", SECOND))
        ]
        bus = await Connector.connect(url)
        stack.push_async_callback(bus.close)
        plain, second = bots
        await plain.start()
        await plain.fleet.ready()
        await second.start(namespace="second", data_dir=str(tmp_path / "data"))
        await second.fleet.ready()

        games = [await play_to_the_end(bot) for bot in bots]
        assert set(games[:1]) <= await plain.games()
        assert set(games[1:]) <= await second.games()
        assert not await plain.games() & await second.games()

        everything = await keys_of(bus)
        under = {key for key in everything if b"{second." in key}
        tags = {re.findall(rb"\{[^}]*\}", key)[0] for key in everything - under - SHARED}
        assert tags == {b"{cm}", b"{cm.in}", b"{cm.out}", b"{games}", b"{rooms}", b"{players}", b"{sessions}"}
        assert {re.findall(rb"\{second\.([^}]*)\}", key)[0] for key in under} == {tag[1:-1] for tag in tags}
        assert (tmp_path / "data" / "namespaces" / "second" / "beats").is_dir()
        for bot in bots:
            assert await bot.fleet.dismiss() == {bot.name: 0}
