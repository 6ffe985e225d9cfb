"""A finished game is folded once, wholly or not at all."""

import asyncio
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import event, select, update

from codemojex.store import history
from codemojex.store.archive import AlreadyFolded, ArchiveConflict, Archived, fold_game, read_watermark
from codemojex.store.engine import close, open_store, reading, writing
from codemojex.store.errors import SegmentDamaged
from codemojex.store.records import StreamRecord, Watermark
from codemojex.store.tables import SegmentRow, Tables
from tests.store.games import QUEUE, game, new_id, player, records, room

CHECKOUT = Path(__file__).parents[2]


async def fold(store, rows, page, expected=None):
    return await fold_game(store, QUEUE, rows.id, page, rows, expected)


async def contents(store) -> dict[str, list[tuple]]:
    async with reading(store) as session:
        return {
            table.name: [tuple(row) for row in await session.execute(select(table).order_by(*table.primary_key))]
            for table in Tables.metadata.sorted_tables
        }


class Crash(Exception):
    """The process dies here."""


@contextmanager
def crash_at(store, number: int) -> Iterator[list[str]]:
    """Raise just before the given statement (1, 2, …) of the block; gives the list of statements seen."""
    seen: list[str] = []

    def count(_connection, _cursor, statement, *_):
        if not statement.startswith("BEGIN"):
            seen.append(statement)
            if len(seen) == number:
                raise Crash

    event.listen(store.engine.sync_engine, "before_cursor_execute", count)
    yield seen
    event.remove(store.engine.sync_engine, "before_cursor_execute", count)


async def test_folded_game_reads_back_equal(store):
    rows = game()
    page = records(rows.id)
    assert await fold(store, rows, page) == Archived(Watermark(page[-1].id, 1))
    assert await history.read_game(store, rows.id) == rows
    assert await history.read_records(store, rows.id) == page
    assert await read_watermark(store, QUEUE, rows.id) == Watermark(page[-1].id, 1)


async def test_second_fold_of_the_same_page_changes_nothing(store):
    rows = game()
    page = records(rows.id)
    await fold(store, rows, page)
    before = await contents(store)
    changed = replace(rows, room=replace(rows.room, title="Later"))
    for expected in (None, Watermark(page[-1].id, 1), Watermark("EVT00000000000", 7)):
        assert await fold(store, changed, page, expected) == AlreadyFolded(Watermark(page[-1].id, 1))
    assert await contents(store) == before


async def test_first_part_of_an_archived_page_is_already_folded(store):
    rows = game()
    page = records(rows.id)
    await fold(store, rows, page)
    assert await fold(store, rows, page[:2]) == AlreadyFolded(Watermark(page[-1].id, 1))


async def test_pages_of_a_long_stream_come_back_as_one(store):
    rows = game()
    page = records(rows.id, 7)
    first = await fold_game(store, QUEUE, rows.id, page[:3], None, None)
    assert first == Archived(Watermark(page[2].id, 1))
    assert await history.read_game(store, rows.id) is None
    second = await fold_game(store, QUEUE, rows.id, page[3:5], None, first.watermark)
    last = await fold(store, rows, page[5:], second.watermark)
    assert last == Archived(Watermark(page[6].id, 3))
    assert await history.read_records(store, rows.id) == page
    assert await history.read_game(store, rows.id) == rows


async def test_of_two_archivers_one_folds_and_the_other_sees_it(store, store_url):
    other = await open_store(store_url)
    try:
        for _ in range(5):
            rows = game()
            page = records(rows.id)
            async with asyncio.timeout(20):
                answers = await asyncio.gather(*(fold(s, rows, page) for s in (store, other, store, other)))
            assert sorted(type(answer).__name__ for answer in answers) == ["AlreadyFolded"] * 3 + ["Archived"]
            assert {answer.watermark for answer in answers} == {Watermark(page[-1].id, 1)}
            assert await history.read_game(store, rows.id) == rows
    finally:
        await close(other)


async def test_games_with_the_same_people_in_any_order_fold_at_once(store):
    """Without one order of locking, two of them would wait for each other until the database breaks one off."""
    people = tuple(player(f"P{number}") for number in range(300))
    games = [
        game(players=people[::step], winner=None, cut=None, guesses=(), standings=()) for step in (1, -1, 1, -1, 1, -1)
    ]
    async with asyncio.timeout(30):
        answers = await asyncio.gather(*(fold(store, rows, records(rows.id)) for rows in games))
    assert all(isinstance(answer, Archived) for answer in answers)


async def test_crash_before_any_statement_leaves_nothing_and_the_next_fold_succeeds(store):
    rows = game()
    page = records(rows.id)
    empty = await contents(store)
    for number in range(1, 30):
        with crash_at(store, number) as seen:
            try:
                answer = await fold(store, rows, page)
            except Crash:
                answer = None
        if answer is not None:
            break
        assert await contents(store) == empty
    assert len(seen) == 7, "watermark, room, players, game, guesses, standings, segment"
    assert answer == Archived(Watermark(page[-1].id, 1))
    assert await history.read_game(store, rows.id) == rows


async def test_crash_before_the_commit_leaves_nothing(store):
    rows = game()
    empty = await contents(store)

    def crash(_connection):
        raise Crash

    event.listen(store.engine.sync_engine, "commit", crash)
    with pytest.raises(Crash):
        await fold(store, rows, records(rows.id))
    event.remove(store.engine.sync_engine, "commit", crash)
    assert await contents(store) == empty


async def test_killed_archiver_leaves_nothing_and_blocks_nobody(store, store_url):
    """A process dies between its last statement and its commit."""
    program = """
import asyncio, os, sys
from sqlalchemy import event
from codemojex.store.engine import open_store
from tests.store.games import game, records
from tests.store.test_archive import fold

async def main():
    store = await open_store(sys.argv[1])
    event.listen(store.engine.sync_engine, "commit", lambda connection: os._exit(9))
    rows = game()
    await fold(store, rows, records(rows.id))

asyncio.run(main())
"""
    empty = await contents(store)
    async with asyncio.timeout(30):
        killed = await asyncio.create_subprocess_exec(sys.executable, "-c", program, store_url, cwd=CHECKOUT)
        assert await killed.wait() == 9
    assert await contents(store) == empty
    rows = game()
    assert isinstance(await fold(store, rows, records(rows.id)), Archived)


async def test_moved_watermark_is_a_conflict_and_writes_nothing(store):
    rows = game()
    page = records(rows.id, 6)
    await fold_game(store, QUEUE, rows.id, page[:3], None, None)
    before = await contents(store)
    at = Watermark(page[2].id, 1)
    for stale in (None, Watermark(page[1].id, 1), replace(at, epoch=2), replace(at, epoch=0)):
        answer = await fold(store, rows, page[3:], stale)
        assert isinstance(answer, ArchiveConflict)
        assert (answer.kind, answer.watermark) == ("moved", at)
    assert await contents(store) == before
    assert isinstance(await fold(store, rows, page[3:], at), Archived)


async def test_other_content_of_the_same_range_is_a_conflict(store):
    rows = game()
    page = records(rows.id)
    await fold(store, rows, page)
    before = await contents(store)
    answer = await fold(store, rows, [*page[:1], replace(page[1], data={"forged": True}), page[2]])
    assert isinstance(answer, ArchiveConflict)
    assert (answer.kind, answer.watermark) == ("diverged", Watermark(page[-1].id, 1))
    assert await contents(store) == before


async def test_rows_that_a_constraint_refuses_are_a_conflict_that_shows_no_secret(store):
    rows = game(commitment="short")
    empty = await contents(store)
    answer = await fold(store, rows, records(rows.id))
    assert isinstance(answer, ArchiveConflict)
    assert answer.kind == "refused"
    assert "ck_games_commitment" in answer.detail
    assert "🦊" not in answer.detail
    assert "b" * 32 not in answer.detail
    assert await contents(store) == empty


async def test_user_who_has_another_player_id_already_is_a_conflict(store):
    first = game()
    await fold(store, first, records(first.id))
    twin = player(user_id=first.players[0].user_id)
    second = game(players=(twin,), winner=None, cut=None, guesses=(), standings=())
    answer = await fold(store, second, records(second.id))
    assert isinstance(answer, ArchiveConflict)
    assert answer.kind == "refused"


async def test_later_game_updates_names_and_keeps_when_the_player_was_first_seen(store):
    first = game()
    await fold(store, first, records(first.id))
    ada = replace(first.players[0], name="Ada L.", lang="ru", created_at=None)
    moved = replace(first.room, chat_id=first.room.chat_id - 1, kind="supergroup", title="Friends")
    second = game(room=moved, players=(ada,), winner=None, cut=None, guesses=(), standings=())
    await fold(store, second, records(second.id))
    assert await history.find_player(store, ada.user_id) == replace(ada, created_at=first.players[0].created_at)
    assert await history.find_room(store, moved.chat_id) == moved
    assert await history.find_room(store, first.room.chat_id) is None


async def test_player_without_a_first_date_gets_the_opening_of_the_game(store):
    cleo = player("Cleo", created_at=None)
    rows = game(players=(cleo,), winner=None, cut=None, guesses=(), standings=())
    await fold(store, rows, records(rows.id))
    assert (await history.find_player(store, cleo.user_id)).created_at == rows.opened_at


async def test_topics_of_a_chat_are_rooms_of_their_own(store):
    general = room()
    topic = room(chat_id=general.chat_id, thread_id=2**40)
    for here in (general, topic):
        rows = game(room=here)
        await fold(store, rows, records(rows.id))
    assert await history.find_room(store, general.chat_id) == general
    assert await history.find_room(store, general.chat_id, 2**40) == topic
    assert await history.find_room(store, general.chat_id, 3) is None


async def test_last_game_of_a_room_is_the_one_opened_last(store):
    here = room()
    older, newer = game(room=here), game(room=here)
    for rows in (newer, older):
        await fold(store, rows, records(rows.id))
    assert await history.last_game_of_room(store, here.id) == newer


async def test_unknown_ids_are_none_or_empty(store):
    assert await history.read_game(store, new_id("GAM")) is None
    assert await history.read_records(store, new_id("GAM")) == []
    assert await history.find_player(store, 1) is None
    assert await history.find_room(store, 1) is None
    assert await history.last_game_of_room(store, new_id("ROM")) is None


async def test_damaged_segment_is_named_and_nothing_of_it_is_read(store):
    rows = game()
    page = records(rows.id)
    await fold(store, rows, page)
    async with writing(store) as session:
        await session.execute(update(SegmentRow).values(sealed=b"x" * 200))
    with pytest.raises(SegmentDamaged, match=f"{QUEUE}/{rows.id}/{page[0].id}"):
        await history.read_records(store, rows.id)


async def test_ids_are_ordered_by_bytes_not_by_language(store):
    """Capital letters come before small ones, in the watermark's comparison as in the database's."""
    rows = game()
    page = [StreamRecord(f"EVT000000000{end}", "k", 1, rows.id, {}) for end in ("0Z", "0a", "ZZ", "aa")]
    await fold_game(store, QUEUE, rows.id, page[:2], None, None)
    await fold(store, rows, page[2:], Watermark(page[1].id, 1))
    assert await history.read_records(store, rows.id) == page


@pytest.mark.parametrize(
    ("page", "sentence"),
    [
        (lambda page: [], "without records"),
        (lambda page: page[::-1], "does not come after"),
        (lambda page: [page[0], replace(page[1], game=new_id("GAM"))], "belongs to game"),
    ],
)
async def test_page_that_is_none_is_refused_before_anything_is_written(store, page, sentence):
    rows = game()
    empty = await contents(store)
    with pytest.raises(ValueError, match=sentence):
        await fold(store, rows, page(records(rows.id)))
    assert await contents(store) == empty


async def test_page_that_reaches_below_the_watermark_is_refused(store):
    rows = game()
    page = records(rows.id)
    with pytest.raises(ValueError, match="not above the watermark"):
        await fold(store, rows, page, Watermark(page[0].id, 1))
