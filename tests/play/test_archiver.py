"""A settled game is archived whole and once; only then its live copy goes."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from typing import Any

import pytest

from codemojex.engine import ids
from codemojex.engine.streams import streams
from codemojex.game.fold import fold
from codemojex.game.presets import settings_for
from codemojex.play import games, keys
from codemojex.play.archive import archiver
from codemojex.play.archive.archiver import Archiver
from codemojex.play.games import GameSnapshot
from codemojex.play.views import views
from codemojex.play.views.folds import Folds
from codemojex.store import engine
from codemojex.store.history import read_game, read_records
from tests.play.table import GameTable


async def finished(table: GameTable, mode: str = "race") -> GameSnapshot:
    game = await table.open(settings_for("quick", "team" if mode == "team" else "race"))
    await table.guess(game, "Ada", await table.wrong(game))
    await table.guess(game, "Boris", await table.secret(game))
    await table.guess(game, "Chen", await table.wrong(game, 2))
    await table.work()
    return game


def forgetful(table: GameTable) -> GameTable:
    """The table as another process sees it: nothing folded yet."""
    return replace(table, play=replace(table.play, folds=Folds()))


async def length(table: GameTable, game: GameSnapshot) -> int:
    return await table.play.bus.execute("XLEN", f"emq:{{{table.queue}}}:stream:{game.id}")


async def test_archived_game_equals_the_live_one(table: GameTable) -> None:
    game = await finished(table)
    records, live = await table.records(game), await table.state(game)
    assert await archiver.archive(table.play, game.id) == "archived"
    assert await length(table, game) == 0
    assert await read_records(table.play.store, game.id) == records
    assert repr(await forgetful(table).state(game)) == repr(live)
    row = await read_game(table.play.store, game.id)
    assert row is not None
    assert (row.state, row.reason, row.winner, row.cut) == ("settled", "cracked", table.people["Boris"].id, 2)
    assert row.secret == live.closed.secret if live.closed else False
    assert [(guess.seq, guess.void) for guess in row.guesses] == [(1, False), (2, False), (3, True)]
    assert [place.player for place in row.standings] == [table.people["Boris"].id, table.people["Ada"].id]
    assert row.room.title == "The Den"
    assert row.opened_at <= row.closed_at if row.closed_at else False


async def test_team_game_gives_every_member_a_place(table: GameTable) -> None:
    game = await finished(table, "team")
    await archiver.archive(table.play, game.id)
    row = await read_game(table.play.store, game.id)
    assert row is not None
    assert {(place.player, place.rank, place.cracked) for place in row.standings} == {
        (table.people["Ada"].id, 1, True),
        (table.people["Boris"].id, 1, True),
    }


async def test_archiving_again_changes_nothing(table: GameTable) -> None:
    game = await finished(table)
    await archiver.archive(table.play, game.id)
    records = await read_records(table.play.store, game.id)
    await table.play.bus.execute("ZADD", keys.complete(table.queue), 1, game.id)
    assert await archiver.archive(table.play, game.id) == "already"
    assert await read_records(table.play.store, game.id) == records
    assert await table.play.bus.execute("ZCARD", keys.complete(table.queue)) == 0


async def test_two_archivers_archive_a_game_once(table: GameTable) -> None:
    game = await finished(table)
    records = await table.records(game)
    await asyncio.gather(*(archiver.archive(table.play, game.id) for _ in range(3)))
    assert await read_records(table.play.store, game.id) == records
    assert await read_game(table.play.store, game.id) is not None


async def test_live_copy_stays_until_the_store_has_it(table: GameTable) -> None:
    game = await finished(table)
    before = await length(table, game)
    await engine.close(table.play.store)
    broken = engine.Store(engine.connect(table.play.store.engine.url.set(database="/nowhere/at/all.db")))
    away = replace(table.play, store=broken)
    work = Archiver(away)
    async with asyncio.timeout(15), asyncio.TaskGroup() as tasks:
        tasks.create_task(work.run())
        await asyncio.sleep(0.1)
        work.stop()  # also ends the pause between two attempts
    assert await length(table, game) == before
    assert await table.play.bus.execute("ZCARD", keys.complete(table.queue)) == 1
    assert await archiver.sweep(table.play) == 1


async def test_archiver_takes_what_it_is_woken_for(table: GameTable) -> None:
    work = Archiver(table.play)
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(work.run())
        game = await finished(table)
        work.wake()
        end = time.monotonic() + 5
        while await table.play.bus.execute("ZCARD", keys.complete(table.queue)):
            assert time.monotonic() < end
            await asyncio.sleep(0.02)
        work.stop()
    assert await read_game(table.play.store, game.id) is not None


async def test_malformed_record_is_quarantined_and_blocks_nothing(table: GameTable) -> None:
    game = await finished(table)
    live = await table.state(game)
    stream = f"emq:{{{table.queue}}}:stream:{game.id}"
    last = (await table.play.bus.execute("XREVRANGE", stream, "+", "-", "COUNT", 1))[0][0].decode()
    ms, _, tail = last.partition("-")
    await table.play.bus.execute("XADD", stream, f"{ms}-{int(tail) + 1}", "nonsense", b"\xff")
    assert await archiver.archive(table.play, game.id) == "archived"
    assert await table.play.bus.execute("HLEN", keys.quarantine(table.queue)) == 1
    assert repr(fold(views.event_of(r) for r in await read_records(table.play.store, game.id))) == repr(live)


async def test_keys_of_an_archived_game_live_on_for_a_while_only(table: GameTable) -> None:
    game = await finished(table)
    await archiver.archive(table.play, game.id)
    for key in keys.expiring(table.play.options, game.id, game.room):
        assert await table.play.bus.execute("PTTL", key) <= table.play.options.archived_keep_ms
    found = await games.snapshot(table.play, game.id)
    assert found is not None
    assert found.state == "settled"
    for key in keys.expiring(table.play.options, game.id, game.room):
        await table.play.bus.execute("DEL", key)
    assert await games.last_game_id(table.play, game.room) == game.id
    assert (await forgetful(table).state(game)).phase == "settled"


async def test_record_appended_after_the_commit_is_not_trimmed(table: GameTable) -> None:
    game = await finished(table)
    await archiver.archive(table.play, game.id)
    record = {"kind": "game.noted", "v": "1", "game": game.id, "data": "{}"}
    added = await streams.append(table.play.bus, table.queue, game.id, record, table.play.mint)
    assert await archiver.archive(table.play, game.id) == "archived"
    assert (await read_records(table.play.store, game.id))[-1].id == added
    assert ids.is_valid(added)


async def test_store_that_refuses_a_game_does_not_block_the_others(table: GameTable) -> None:
    first = await finished(table)
    # Another player of the archive has Ada's user id: the store's constraint refuses the row.
    ada = keys.player(table.play.options, table.people["Ada"].id)
    boris = table.people["Boris"]
    await table.play.bus.execute("HSET", ada, "user_id", boris.user_id)
    assert await archiver.archive(table.play, first.id) == "refused"
    assert await length(table, first) > 0
    await table.play.bus.execute("HSET", ada, "user_id", table.people["Ada"].user_id)
    second = await table.open(request="open-2")
    await table.guess(second, "Ada", await table.secret(second))
    await table.work()
    assert await archiver.sweep(table.play) == 1
    assert await table.play.bus.execute("ZRANGE", keys.refused(table.queue), 0, -1) == [first.id.encode()]


async def test_game_with_a_trouble_of_its_own_does_not_block_the_others(
    table: GameTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = await finished(table)
    second = await table.open(settings_for("quick", "solo"), request="open-2")
    await table.guess(second, "Ada", await table.secret(second))
    await table.work()
    real = archiver.fold_game

    async def damaged(store: Any, queue: Any, stream: str, *rest: Any) -> Any:
        if stream == first.id:
            raise ValueError("this game is too much")
        return await real(store, queue, stream, *rest)

    monkeypatch.setattr(archiver, "fold_game", damaged)
    assert await archiver.sweep(table.play) == 1
    assert await read_game(table.play.store, second.id) is not None
    assert await length(table, first) > 0
    assert await table.play.bus.execute("ZRANGE", keys.refused(table.queue), 0, -1) == [first.id.encode()]
