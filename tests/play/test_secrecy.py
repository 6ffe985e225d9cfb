"""Before the close the secret is in one key, and in no other key, payload, event or log line."""

from __future__ import annotations

import logging
import re
from typing import Any

import msgspec
import pytest

from codemojex.engine.streams import streams
from codemojex.game.presets import settings_for
from codemojex.play import games, keys
from codemojex.play.closing import end
from codemojex.play.outbound import feed
from tests.play.table import GameTable


async def dump(bus: Any, key: bytes) -> str:
    """Everything that a key holds, as text."""
    kind = await bus.execute("TYPE", key)
    command = {
        b"string": ("GET", key),
        b"hash": ("HGETALL", key),
        b"list": ("LRANGE", key, 0, -1),
        b"set": ("SMEMBERS", key),
        b"zset": ("ZRANGE", key, 0, -1, "WITHSCORES"),
        b"stream": ("XRANGE", key, "-", "+"),
        b"none": ("GET", key),
    }[kind]
    return text(await bus.execute(*command))


def text(value: Any) -> str:
    if isinstance(value, dict):
        return " ".join(text(part) for pair in value.items() for part in pair)
    if isinstance(value, (list, set, tuple)):
        return " ".join(text(part) for part in value)
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)


async def holders(table: GameTable, needles: list[str]) -> set[str]:
    """The keys of the test's queues whose name or content has one of the needles."""
    found: set[str] = set()
    for pattern in (f"*{table.play.options.guesses}*", "ecc:*"):
        for key in await scan(table.play.bus, pattern):
            content = key.decode(errors="replace") + await dump(table.play.bus, key)
            # Whatever stands between the tokens in some encoding: quotes, spaces, the length bytes of MessagePack.
            plain = re.sub(r"[\s\"\\,\ufffd]", "", content)
            if any(needle in content or needle in plain for needle in needles):
                found.add(key.decode())
    return found


async def scan(bus: Any, pattern: str) -> set[bytes]:
    keys, cursor = set[bytes](), "0"
    while True:
        reply = await bus.execute("SCAN", cursor, "MATCH", pattern, "COUNT", 1000)
        keys |= set(reply[1])
        cursor = reply[0].decode()
        if cursor == "0":
            return keys


@pytest.mark.parametrize("mode", ["race", "team", "solo"])
async def test_secret_is_in_its_own_key_alone_until_the_close(
    table: GameTable, mode: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    game = await table.open(settings_for("classic", "team" if mode == "team" else "solo" if mode == "solo" else "race"))
    tokens = await table.secret(game)
    raw = await table.play.bus.execute("HGET", keys.secret(table.queue, game.id), "nonce")
    needles = [raw.decode().strip(), "".join(tokens), ",".join(tokens), " ".join(tokens)]
    escaped = msgspec.json.encode(list(tokens)).decode()
    needles += [escaped, escaped.encode("ascii", "backslashreplace").decode()]
    own = {keys.secret(table.queue, game.id)}

    await table.guess(game, "Ada", await table.wrong(game, 1))
    assert await holders(table, needles) == own
    await table.work()
    await games.snapshot(table.play, game.id)
    await table.state(game)
    await feed.tell(table.play, await streams.read(table.play.bus, table.queue, keys.FEED))
    assert await holders(table, needles) == own
    assert not any(needle in caplog.text for needle in needles)

    await end(table.play, game, table.people["Ada"], by_admin=True, request="e1")
    assert len(await holders(table, needles)) > 1, "the search must be able to find it"


async def test_crack_whose_game_is_not_closed_yet_does_not_show_the_secret(table: GameTable) -> None:
    game = await table.open(settings_for("classic", "race"))
    tokens = await table.secret(game)
    await table.guess(game, "Ada", await table.wrong(game))
    await table.guess(game, "Boris", tokens)
    ada, boris = await table.claim()
    await table.settle([boris])
    assert (await table.fresh(game)).state == "closing"
    assert await holders(table, [",".join(tokens), "".join(tokens)]) == {keys.secret(table.queue, game.id)}
    await table.settle([ada])
