"""The page about one guess shows the keys as they are: it is compared with a game that is really played."""

from __future__ import annotations

import re
from pathlib import Path

from codemojex.game.presets import settings_for
from codemojex.play.archive import archiver
from tests.play.table import GameTable
from tests.play.test_secrecy import text

PAGE = Path(__file__).parents[2] / "docs/explanation/one-guess.md"
_BLOCK = re.compile(r"<!-- keys: (?P<step>\w+) -->\n```text\n(?P<keys>.*?)```", re.DOTALL)
_SHOWN = {
    "game": ("state", "seq", "players", "exhausted", "cut", "reason", "rev"),
    "room": ("live", "last"),
    "job": ("state", "attempts", "group"),
}
_FAMILIES = ("cmx", "active", "schedule", "ring", "g:", "job:", "stream:GAM", "stream:feed")


def masked(line: str) -> str:
    """Ids without their number: the n-th id of a kind would change from game to game."""
    return re.sub(r"\b(GAM|ROM|PLR|JOB|GES|EVT)[0-9A-Za-z]{11}\b", r"\1…", line)


async def picture(table: GameTable, game_id: str) -> str:
    """The keys of the game and its queue, one a line, without what differs from run to run."""
    bus, queue = table.play.bus, table.play.options.guesses
    lines: dict[str, str] = {}  # by key, for a scan may show a key twice
    cursor = "0"
    while True:
        reply = await bus.execute("SCAN", cursor, "MATCH", f"*{{{queue}}}*", "COUNT", 1000)
        cursor = reply[0].decode()
        for raw in reply[1]:
            key = raw.decode()
            name = key.split("}:")[1]
            about_people = name.startswith(("chat:", "user:", "player:", "opened:", "stream:cell"))
            if about_people or not (key.startswith("cmx") or name.startswith(_FAMILIES)):
                continue
            shown = masked(key.replace(queue, "cm"))
            lines[key] = f"{shown:29} {masked(await content(table, key, name))}".rstrip()
        if cursor == "0":
            return "\n".join(sorted(lines.values())) + "\n"


async def content(table: GameTable, key: str, name: str) -> str:
    bus, family = table.play.bus, name.split(":", maxsplit=1)[0]
    if name.endswith(":archived"):
        return "the last record that the store has"
    if family == "secret":
        return "tokens, nonce"
    if family in _SHOWN:
        fields = {k.decode(): v.decode() for k, v in (await bus.execute("HGETALL", key)).items()}
        return " ".join(f"{field}={fields[field]}" for field in _SHOWN[family] if field in fields)
    if family == "stream":
        return " · ".join(fields[3].decode() for _, fields in await bus.execute("XRANGE", key, "-", "+"))
    if family == "codes":
        return " ".join(f"a digest → {v.decode()}" for v in (await bus.execute("HGETALL", key)).values())
    if family in ("active", "schedule", "complete", "unarchived"):
        return f"{await bus.execute('ZCARD', key)} waiting" if family != "active" else "1 leased"
    kind = await bus.execute("TYPE", key)
    if kind == b"zset":
        pairs = await bus.execute("ZRANGE", key, 0, -1, "WITHSCORES")
        return " ".join(f"{member.decode()}={float(score):.0f}" for member, score in pairs)
    if kind == b"list":
        return text(await bus.execute("LRANGE", key, 0, -1))
    return " ".join(f"{k.decode()} → {v.decode()}" for k, v in (await bus.execute("HGETALL", key)).items())


async def test_page_shows_the_keys_as_they_are(table: GameTable) -> None:
    page = {block["step"]: block["keys"] for block in _BLOCK.finditer(PAGE.read_text(encoding="utf-8"))}
    game = await table.open(settings_for("quick", "solo"))
    pictures = {"opened": await picture(table, game.id)}
    await table.guess(game, "Ada", await table.secret(game), "update-17")
    pictures["accepted"] = await picture(table, game.id)
    jobs = await table.claim()
    pictures["claimed"] = await picture(table, game.id)
    await table.settle(jobs)
    pictures["scored"] = await picture(table, game.id)
    await table.work()
    pictures["settled"] = await picture(table, game.id)
    await archiver.archive(table.play, game.id)
    pictures["archived"] = await picture(table, game.id)
    for step, shown in pictures.items():
        assert page.get(step) == shown, f"the page should show at {step!r}:\n{shown}"
    assert page.keys() == pictures.keys()
