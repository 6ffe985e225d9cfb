"""The database itself refuses what must not be, whoever writes."""

from dataclasses import asdict, replace

import pytest
from sqlalchemy import delete, insert, select
from sqlalchemy.exc import IntegrityError, StatementError

from codemojex.store.archive import fold_game
from codemojex.store.engine import reading, writing
from codemojex.store.tables import GameRow, GuessRow, PlayerRow, RoomRow, SegmentRow, StandingRow, WatermarkRow
from tests.store.games import OPENED, QUEUE, game, guess, new_id, player, records, room

LIVE = {"state": "live", "secret": None, "nonce": None, "reason": None, "closed_at": None, "winner": None, "cut": None}


@pytest.fixture
async def rows(store):
    """An archived game to clash with."""
    rows = game()
    await fold_game(store, QUEUE, rows.id, records(rows.id), rows, None)
    return rows


def game_row(rows, **fields):
    names = ("preset", "mode", "settings", "commitment", "secret", "nonce", "state", "reason", "winner", "opened_at")
    row = {name: getattr(rows, name) for name in (*names, "closed_at", "cut")}
    return row | {"id": new_id("GAM"), "room": rows.room.id} | fields


async def add(store, table, row):
    async with writing(store) as session:
        await session.execute(insert(table), [row])


async def refused(store, table, row, constraint=""):
    with pytest.raises(IntegrityError, match=constraint):
        await add(store, table, row)


async def test_room_has_one_live_game_at_most(store, rows):
    await add(store, GameRow, game_row(rows, **LIVE))
    await add(store, GameRow, game_row(rows))
    await refused(store, GameRow, game_row(rows, **LIVE), "games.room|uq_games_live_room")


async def test_secret_is_unknown_exactly_while_the_game_is_live(store, rows):
    for column in ("secret", "nonce", "reason", "closed_at"):
        await refused(store, GameRow, game_row(rows, **{**LIVE, column: getattr(rows, column)}), f"ck_games_{column}")
        await refused(store, GameRow, game_row(rows, **{column: None}), f"ck_games_{column}")


async def test_guess_is_recorded_once_by_id_and_once_by_seq(store, rows):
    ada = rows.players[0]
    row = asdict(guess(9, ada)) | {"game": rows.id}
    await add(store, GuessRow, row)
    await refused(store, GuessRow, row | {"seq": 10}, "guesses.id|pk_guesses")
    await refused(store, GuessRow, row | {"id": new_id("GES")}, "guesses.game, guesses.seq|uq_guesses_game_seq")


async def test_guess_that_counts_has_a_total(store, rows):
    row = asdict(guess(9, rows.players[0], total=None)) | {"game": rows.id}
    await refused(store, GuessRow, row, "ck_guesses_scored")
    await add(store, GuessRow, row | {"void": True})


async def test_player_has_one_standing_per_game(store, rows):
    row = asdict(rows.standings[0]) | {"game": rows.id}
    await refused(store, StandingRow, row, "standings.game, standings.player|pk_standings")


async def test_telegram_user_is_one_player(store, rows):
    await refused(store, PlayerRow, asdict(player(user_id=rows.players[0].user_id)), "user_id")


async def test_chat_is_one_room_and_each_topic_is_one(store, rows):
    here = rows.room
    await refused(store, RoomRow, asdict(room(chat_id=here.chat_id)), "uq_rooms_chat_thread")
    topic = room(chat_id=here.chat_id, thread_id=5)
    await add(store, RoomRow, asdict(topic))
    await refused(store, RoomRow, asdict(replace(topic, id=new_id("ROM"))), "uq_rooms_chat_thread")


async def test_range_is_sealed_once(store):
    row = {"queue": "q", "stream": "s", "first_id": new_id("EVT"), "last_id": new_id("EVT"), "count": 2}
    row |= {"sha256": "0" * 64, "sealed": b"x"}
    await add(store, SegmentRow, row)
    await refused(store, SegmentRow, row | {"last_id": new_id("EVT")}, "segments.first_id|pk_segments")
    await refused(store, SegmentRow, row | {"first_id": row["last_id"]}, "segments.last_id|uq_segments")
    await refused(store, SegmentRow, row | {"first_id": new_id("EVT"), "last_id": row["first_id"]}, "ck_segments_range")


async def test_stream_has_one_watermark(store):
    row = {"queue": "q", "stream": "s", "watermark": new_id("EVT"), "epoch": 1}
    await add(store, WatermarkRow, row)
    await refused(store, WatermarkRow, row | {"epoch": 2}, "watermarks.stream|pk_watermarks")
    await refused(store, WatermarkRow, row | {"stream": "t", "epoch": 0}, "ck_watermarks_epoch")


async def test_id_of_another_brand_is_refused(store, rows):
    row = asdict(guess(9, rows.players[0])) | {"game": rows.id}
    await refused(store, PlayerRow, asdict(player(id=new_id("ROM"))), "ck_players_id_brand")
    await refused(store, RoomRow, asdict(room(id=new_id("PLR"))), "ck_rooms_id_brand")
    await refused(store, GameRow, game_row(rows, id=new_id("GES")), "ck_games_id_brand")
    await refused(store, GuessRow, row | {"id": "GES1"}, "ck_guesses_id_brand")


async def test_rows_that_others_point_to_stay(store, rows):
    for table, row_id in ((GameRow, rows.id), (RoomRow, rows.room.id), (PlayerRow, rows.players[0].id)):
        with pytest.raises(IntegrityError, match=r"(?i)foreign key"):
            async with writing(store) as session:
                await session.execute(delete(table).where(table.id == row_id))
    orphan = asdict(guess(9, rows.players[0])) | {"game": new_id("GAM")}
    await refused(store, GuessRow, orphan, r"(?i)foreign key")


async def test_moments_are_kept_to_the_microsecond_in_utc_and_naive_ones_are_refused(store, rows):
    async with reading(store) as session:
        kept = await session.scalar(select(GameRow.opened_at))
    assert kept == OPENED
    assert kept.utcoffset().total_seconds() == 0
    with pytest.raises(StatementError, match="naive"):
        await add(store, PlayerRow, asdict(player(created_at=None)) | {"created_at": OPENED.replace(tzinfo=None)})
    with pytest.raises(ValueError, match="time zone"):
        player(created_at=OPENED.replace(tzinfo=None))


async def test_telegram_ids_keep_64_bits(store):
    await add(store, RoomRow, asdict(room(chat_id=-(2**62), thread_id=2**62)))
    async with reading(store) as session:
        assert (await session.execute(select(RoomRow.chat_id, RoomRow.thread_id))).one() == (-(2**62), 2**62)


def test_text_that_postgresql_cannot_keep_is_refused_by_name():
    with pytest.raises(ValueError, match="name holds a NUL"):
        player("A\0da")
