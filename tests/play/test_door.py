"""What the durable store would refuse is refused, or made fit, before anything is made of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import CheckConstraint, String, Text

from codemojex.engine.errors import InvalidValue
from codemojex.game.presets import settings_for
from codemojex.play import games, guesses, rooms
from codemojex.play.archive import archiver
from codemojex.play.context import Options
from codemojex.play.people import input_checks, players
from codemojex.store.history import read_game
from codemojex.store.tables import Tables
from tests.play.table import GameTable

ABSURD = (0, -1, -(2**63), 2**63, 2**64, 10**400)


@pytest.mark.parametrize("value", ABSURD)
async def test_an_absurd_person_is_refused_by_name_and_leaves_nothing(table: GameTable, value: int) -> None:
    with pytest.raises(InvalidValue, match="user_id"):
        await players.player_for(table.play, value, "Eve", "en")
    with pytest.raises(InvalidValue, match="user_id"):
        await players.find(table.play, value)
    keys = await table.play.bus.execute("KEYS", f"cmx:{{{table.play.options.guesses}}}:user:{value}")
    assert keys == []


@pytest.mark.parametrize(("chat", "thread", "field"), [
    *[(value, None, "chat_id") for value in (0, -(2**63), 2**63, -(10**400))],
    *[(-5, value, "thread_id") for value in ABSURD],
])  # fmt: skip
async def test_an_absurd_place_is_refused_by_name(table: GameTable, chat: int, thread: int | None, field: str) -> None:
    with pytest.raises(InvalidValue, match=field):
        await rooms.room_for(table.play, chat, thread, "group", "The Den")
    with pytest.raises(InvalidValue, match="chat_id"):
        await rooms.migrate(table.play, 0, -5)


async def test_a_game_of_people_with_the_strangest_names_is_archived(table: GameTable) -> None:
    """The ends of every range, and texts that no column holds, pass the door and the store."""
    play = table.play
    strange = "\0\ud83d" + "n" * 5_000
    room = await rooms.room_for(play, -input_checks.MAX_ID, input_checks.MAX_ID, "k" * input_checks.MAX_KIND, strange)
    first = await players.player_for(play, input_checks.MAX_ID, strange, "x" * 5_000)
    second = await players.player_for(play, 1, "", "x" * input_checks.MAX_LANG)
    assert (len(first.name), first.lang) == (input_checks.MAX_NAME, "")
    table.room = room
    opened = await games.open_game(play, room, first, settings_for("quick", "race"), "r")
    assert isinstance(opened, games.Opened)
    wrong, right = await table.wrong(opened.game), await table.secret(opened.game)
    assert isinstance(await guesses.submit(play, opened.game, second, wrong, "a"), guesses.Accepted)
    assert isinstance(await guesses.submit(play, opened.game, first, right, "b"), guesses.Accepted)
    await table.work()
    assert await archiver.archive(play, opened.game.id) == "archived"
    kept = await read_game(play.store, opened.game.id)
    assert kept is not None
    assert {player.user_id for player in kept.players} == {1, input_checks.MAX_ID}


def test_the_one_reader_of_ids_takes_only_games_within_range() -> None:
    assert input_checks.game_id("GAM" + "0" * 11) == "GAM" + "0" * 11
    for text in (None, "", "GAM", "GAMzzzzzzzzzzz", "ROM" + "0" * 11, "GAM" + "٠" * 11, "GAM" + "0" * 12, "\ud83d"):
        assert input_checks.game_id(text) is None


def refuses(check: Callable[[Any], object], *values: object) -> Callable[[], None]:
    def probe() -> None:
        for value in values:
            with pytest.raises(ValueError):  # noqa: PT011  # each has its own class and words
                check(value)

    return probe


def fits(clean: Callable[[str], str], most: int) -> Callable[[], None]:
    def probe() -> None:
        made = clean("\0\ud83d" + "x" * 100_000)
        assert len(made) <= most
        assert "\0" not in made
        made.encode()

    return probe


def ours(why: str) -> Callable[[], None]:
    """The value is made by the program and nobody outside has a hand in it."""

    def probe() -> None:
        assert why

    return probe


MINTED_NUMBER = ours("counted by submit.lua from 1")
COMPUTED = ours("computed by game.scoring and game.ranking from codes that guesses.submit has checked")
SEALED = ours("made by store.archive of the stream's records")

# Every constraint and every limited column of the store → what checks it at the door, or why nothing has to.
DOORS: dict[str, Callable[[], None]] = {
    "players.user_id": refuses(input_checks.user_id, *ABSURD),
    "players ck user_id": refuses(input_checks.user_id, *ABSURD),
    "players.name": fits(input_checks.name, input_checks.MAX_NAME),
    "players.lang": fits(input_checks.language, input_checks.MAX_LANG),
    "rooms.chat_id": refuses(input_checks.chat_id, 0, 2**63, -(2**63)),
    "rooms.thread_id": refuses(input_checks.thread_id, *ABSURD),
    "rooms ck thread_id": refuses(input_checks.thread_id, *ABSURD),
    "rooms.kind": refuses(input_checks.kind, "", "k" * 17),
    "rooms.title": fits(input_checks.name, input_checks.MAX_NAME),
    "games.preset": refuses(settings_for, "x", "x" * 17),
    "games.mode": refuses(lambda value: settings_for("quick", value), "x"),
    "games ck mode": refuses(lambda value: settings_for("quick", value), "x"),
    "games.commitment": ours("a SHA-256 in hex, by game.commitment"),
    "games ck commitment": ours("a SHA-256 in hex, by game.commitment"),
    "games.nonce": ours("16 bytes in hex, by games.open_game"),
    "games.state": ours("closed or settled, by rows.archived_game"),
    "games.reason": ours("one of game.events.CLOSE_REASONS, by the scripts"),
    **{f"games ck {name}": ours("only closed games are archived, with everything") for name in
       ("state", "secret", "nonce", "reason", "closed_at")},
    "games ck cut": MINTED_NUMBER,
    "guesses ck seq": MINTED_NUMBER,
    "guesses ck try_no": MINTED_NUMBER,
    "guesses ck total": COMPUTED,
    "guesses ck scored": ours("a guess without a score is void, by game.fold"),
    "guesses.tiles": COMPUTED,
    **{f"standings ck {name}": COMPUTED for name in ("rank", "tries", "points")},
    **{f"segments ck {name}": SEALED for name in ("range", "count", "sha256")},
    **{f"{name}.{column}": refuses(lambda value: Options(guesses=value), "q" * 33, "{q}")
       for name in ("segments", "watermarks") for column in ("queue", "stream")},
    "segments.sha256": SEALED,
    "watermarks.epoch": ours("counted by store.archive from 1"),
    "watermarks ck epoch": ours("counted by store.archive from 1"),
}  # fmt: skip


def constraints() -> set[str]:
    found: set[str] = set()
    for table in Tables.metadata.sorted_tables:
        if table.name == "deployment":  # what the program says of itself; no text of a person reaches it
            continue
        for constraint in table.constraints:
            if isinstance(constraint, CheckConstraint):
                name = str(constraint.name).removeprefix(f"ck_{table.name}_")
                if not name.endswith("_brand"):  # every id is minted or derived by engine.ids
                    found.add(f"{table.name} ck {name}")
        for column in table.columns:
            limited = isinstance(column.type, String | Text) or type(column.type).__name__ == "BigInteger"
            branded = getattr(column.type, "length", None) == 14
            if limited and not branded:
                found.add(f"{table.name}.{column.name}")
    return found


def test_every_constraint_of_the_store_has_its_check_at_the_door() -> None:
    assert constraints() == set(DOORS)


@pytest.mark.parametrize("name", DOORS)
def test_the_door_refuses_what_the_store_would(name: str) -> None:
    DOORS[name]()
