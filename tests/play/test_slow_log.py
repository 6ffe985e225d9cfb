"""The server's slow log, which logs every command here, never shows the code of a game."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from codemojex.engine.cache.near_cache import NearCache
from codemojex.engine.transport.connector import Connector
from codemojex.game.presets import settings_for
from codemojex.play import keys
from codemojex.play.archive import archiver
from codemojex.play.unlogged import hide
from codemojex.store import engine
from tests.play.table import GameTable
from tests.play.test_secrecy import text
from tests.support.valkey import ValkeyServer

EVERYTHING = ("--slowlog-log-slower-than", "0", "--slowlog-max-len", "100000")
LARGE = ("--commandlog-request-larger-than", "0", "--commandlog-reply-larger-than", "0")


@pytest.fixture
async def logged(
    start_valkey: Callable[..., ValkeyServer], queue: str, durable: engine.Store
) -> AsyncIterator[tuple[GameTable, ValkeyServer]]:
    """A table over a server that logs every command as slow, as a large request and as one with a large reply."""
    server = start_valkey(*EVERYTHING, *LARGE, "--loglevel", "debug")
    bus = await Connector.connect(server.url)
    near = NearCache(bus)
    table = await GameTable.lay(bus, queue, durable, near)
    async with near:
        yield table, server
    await bus.close()


async def log(bus: Connector) -> str:
    """All that the server has logged of its commands."""
    kinds = [("slow",), ("large-request",), ("large-reply",)]
    return " ".join([text(await bus.execute("COMMANDLOG", "GET", -1, *kind)) for kind in kinds])


def needles(code: tuple[str, ...], *others: str) -> list[str]:
    escaped = msgspec.json.encode(list(code)).decode()
    bare = escaped[1:-1]
    return [*others, escaped, bare, bare.encode("ascii", "backslashreplace").decode(), "".join(code), " ".join(code)]


async def test_no_log_of_the_server_shows_the_code(logged: tuple[GameTable, ValkeyServer]) -> None:
    table, server = logged
    game = await table.open(settings_for("classic", "race"))
    code = await table.secret(game)
    nonce: Any = (await table.play.bus.execute("HGET", keys.secret(table.queue, game.id), "nonce")).decode()
    await table.guess(game, "Ada", await table.wrong(game))
    await table.guess(game, "Boris", code)  # a perfect guess is the code as well
    ada, boris = await table.claim()
    await table.settle([boris])
    assert (await table.fresh(game)).state == "closing", "nothing is revealed yet"
    seen = await log(table.play.bus)
    assert "game.opened" in seen, "what a script runs is logged as well"
    words = Path(server.directory / "log").read_text(errors="replace")
    assert not [needle for needle in needles(code, nonce) if needle in seen or needle in words]
    await table.settle([ada])
    assert [needle for needle in needles(code, nonce) if needle in await log(table.play.bus)], "the search finds it"


async def test_hidden_text_is_not_logged_wherever_it_stands(logged: tuple[GameTable, ValkeyServer]) -> None:
    bus = logged[0].play.bus
    assert await bus.execute(
        "EVAL", "redis.call('SET', KEYS[1], ARGV[1]) return ARGV[1]", 1, "k", hide("🍎🍋")
    ) == hide("🍎🍋")
    assert await bus.execute("EVAL", "return ARGV[1]", 0, "seen-by-all") == b"seen-by-all"
    seen = await log(bus)
    assert "seen-by-all" in seen, "the search must be able to find it"
    assert "🍎" not in seen


async def test_secret_goes_with_the_archiving_and_not_before(table: GameTable) -> None:
    game = await table.open(settings_for("quick", "solo"))
    key = keys.secret(table.queue, game.id)
    await table.guess(game, "Ada", await table.secret(game))
    await table.work()
    assert await table.play.bus.execute("PTTL", key) == -1
    await archiver.archive(table.play, game.id)
    assert await table.play.bus.execute("EXISTS", key) == 0


async def test_secret_of_an_older_release_without_the_spaces_is_read_as_well(table: GameTable) -> None:
    game = await table.open(settings_for("quick", "solo"))
    key, bus = keys.secret(table.queue, game.id), table.play.bus
    for field, value in (await bus.execute("HGETALL", key)).items():
        await bus.execute("HSET", key, field, value.strip())
    await table.guess(game, "Ada", await table.secret(game))
    await table.work()
    assert (await table.state(game)).commitment_holds()
