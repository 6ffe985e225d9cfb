"""A session is one per player and conversation, and no update of it is lost."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from codemojex.engine import ids
from codemojex.engine.cache.near_cache import NearCache
from codemojex.play.caches import with_caches
from codemojex.play.context import Caches
from codemojex.play.people import sessions
from codemojex.play.people.sessions import Session
from tests.play.table import GameTable


async def test_fresh_session_is_empty_and_an_update_is_kept(table: GameTable) -> None:
    name = sessions.session_id(table.people["Ada"].id, 7, None)
    assert await sessions.get(table.play, name) == Session()
    changed = await sessions.update(
        table.play, name, lambda old: msgspec.structs.replace(old, draft=("🍎", None), locks={1: "🍋"})
    )
    assert changed.draft == ("🍎", None)
    assert await sessions.get(table.play, name) == changed
    await sessions.clear(table.play, name)
    assert await sessions.get(table.play, name) == Session()


def test_session_belongs_to_player_and_conversation() -> None:
    names = {sessions.session_id(player, chat, thread) for player in "ab" for chat in (1, 2) for thread in (None, 3)}
    assert len(names) == 8
    assert all(ids.require(name, "SES") for name in names)
    assert sessions.session_id("a", 1, None) == sessions.session_id("a", 1, None)


def test_a_draft_is_gone_once_its_guess_is_handed_in() -> None:
    session = Session(game="g", draft=("🍎",), tries=2, locks={0: "🍋"})
    assert sessions.draft_of(session, "g", 2) == ("🍎",)
    assert sessions.draft_of(session, "g", 3) == ()
    assert sessions.draft_of(session, "h", 2) == ()
    assert sessions.for_game(session, "g") == session
    assert sessions.for_game(session, "h") == Session(game="h", tries=2)


def test_the_last_game_of_another_room_is_remembered_behind_the_own_one() -> None:
    session = sessions.for_game(sessions.for_game(Session(), "theirs", joined=True), "own")
    assert (session.game, session.joined) == ("own", "theirs")


async def test_no_update_is_lost_between_processes(table: GameTable) -> None:
    name = sessions.session_id(table.people["Ada"].id, 8, None)

    def count(old: Session) -> Session:
        return msgspec.structs.replace(old, tries=old.tries + 1)

    async with NearCache(table.play.bus) as other:
        elsewhere = with_caches(table.play, other)
        await other.connected()
        await asyncio.gather(*(sessions.update(play, name, count) for play in (table.play, elsewhere) * 10))
        assert (await sessions.update(elsewhere, name, count)).tries == 21


async def test_session_without_a_cache_says_what_is_missing(table: GameTable) -> None:
    from dataclasses import replace

    with pytest.raises(RuntimeError, match="with_caches"):
        await sessions.get(replace(table.play, caches=Caches()), sessions.session_id("a", 1, None))
