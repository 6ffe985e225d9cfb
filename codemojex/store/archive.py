"""Folds a finished game's stream into the durable store, keyed by (queue, stream).

Rows, sealed segment and watermark are committed in one transaction, or nothing is. The watermark is swapped first, so
that of two archivers one writes and the other waits and then sees what was done. It neither reads nor trims the live
stream: the caller does that, and trims only up to the watermark that it was given back.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal, cast

from sqlalchemy import CursorResult, insert, select, update
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import DataError, IntegrityError
from sqlalchemy.ext.asyncio import AsyncSession

from codemojex.store import segment
from codemojex.store.engine import Store, first_line, reading, writing
from codemojex.store.records import ArchivedGame, ArchivedPlayer, StreamRecord, Watermark
from codemojex.store.tables import GameRow, GuessRow, PlayerRow, RoomRow, SegmentRow, StandingRow, Tables, WatermarkRow


@dataclass(frozen=True, slots=True)
class Archived:
    """The page is archived by this call; the live stream may be trimmed up to `watermark.id`."""

    watermark: Watermark


@dataclass(frozen=True, slots=True)
class AlreadyFolded:
    """Every record of the page was archived before; the live stream may be trimmed up to `watermark.id`."""

    watermark: Watermark


@dataclass(frozen=True, slots=True)
class ArchiveConflict:
    """Nothing was written, and `detail` says why.

    `moved`: the watermark is not the expected one: read the page again above `watermark` and fold that.
    `diverged`: the same range is archived with other content; trying again never helps.
    `refused`: a constraint of the tables refuses the rows; trying again never helps.
    """

    kind: Literal["moved", "diverged", "refused"]
    detail: str
    watermark: Watermark | None


async def read_watermark(store: Store, queue: str, stream: str) -> Watermark | None:
    """How far the stream is archived; None if nothing of it is."""
    async with reading(store) as session:
        return await _watermark(session, queue, stream)


async def fold_game(  # noqa: PLR0917 - the order is that of the archive's vocabulary: what, where, from where
    store: Store,
    queue: str,
    stream: str,
    records: Sequence[StreamRecord],
    rows: ArchivedGame | None,
    expected_watermark: Watermark | None,
) -> Archived | AlreadyFolded | ArchiveConflict:
    """Archive one page of a game's stream: the records above the expected watermark, in order of id.

    `rows` comes with the page that ends the game and is None for pages before it; `expected_watermark` None says that
    nothing of the stream is archived. Calling it again with the same page changes nothing and answers `AlreadyFolded`.
    Rooms and players are updated to what this game knows of them. Raises `ValueError` for a page that is not one
    (empty, unordered, of several games, below the watermark) and `StoreUnavailable`, after which the page may be
    archived or not: call it again.
    """
    _check_page(records, rows, expected_watermark)
    sealed = segment.encode(records)
    reached = Watermark(records[-1].id, 1 if expected_watermark is None else expected_watermark.epoch + 1)
    try:
        async with writing(store) as session:
            if await _swap_watermark(session, queue, stream, expected_watermark, reached):
                if rows is not None:
                    await _write_game(session, rows)
                await _write_segment(session, queue, stream, records, sealed)
                return Archived(reached)
    except (IntegrityError, DataError) as error:
        return ArchiveConflict("refused", first_line(error), expected_watermark)
    return await _explain(store, queue, stream, records, sealed)


def _check_page(records: Sequence[StreamRecord], rows: ArchivedGame | None, expected: Watermark | None) -> None:
    if not records:
        raise ValueError("a page without records cannot be folded")
    game = records[0].game if rows is None else rows.id
    for record in records:
        if record.game != game:
            raise ValueError(f"record {record.id} belongs to game {record.game}, the page to {game}")
    if expected is not None and records[-1].id > expected.id >= records[0].id:
        raise ValueError(f"record {records[0].id} is not above the watermark {expected.id}; read the page above it")


async def _swap_watermark(
    session: AsyncSession, queue: str, stream: str, expected: Watermark | None, reached: Watermark
) -> bool:
    values = {"watermark": reached.id, "epoch": reached.epoch}
    if expected is None:
        create = _insert(session, WatermarkRow).values(queue=queue, stream=stream, **values).on_conflict_do_nothing()
        result = await session.execute(create)
    elif reached.id <= expected.id:
        return False
    else:
        swap = update(WatermarkRow).where(
            WatermarkRow.queue == queue,
            WatermarkRow.stream == stream,
            WatermarkRow.watermark == expected.id,
            WatermarkRow.epoch == expected.epoch,
        )
        result = await session.execute(swap.values(**values), execution_options={"synchronize_session": False})
    return cast("CursorResult[Any]", result).rowcount == 1  # Any: the statement returns no rows


async def _write_game(session: AsyncSession, game: ArchivedGame) -> None:
    room = asdict(game.room)
    await session.execute(_upsert(session, RoomRow, ("chat_id", "thread_id", "kind", "title")), [room])
    # Sorted, so that two games with the same players lock them in the same order.
    players = [_player_row(player, game) for player in sorted(game.players, key=lambda player: player.id)]
    if players:
        await session.execute(_upsert(session, PlayerRow, ("user_id", "name", "lang")), players)
    await _add(session, GameRow, [_game_row(game)])
    await _add(session, GuessRow, [asdict(guess) | {"game": game.id} for guess in game.guesses])
    await _add(session, StandingRow, [asdict(place) | {"game": game.id} for place in game.standings])


def _player_row(player: ArchivedPlayer, game: ArchivedGame) -> dict[str, Any]:  # Any: one type per column
    return asdict(player) | {"created_at": player.created_at or game.opened_at}


def _game_row(game: ArchivedGame) -> dict[str, Any]:  # Any: one type per column
    apart = ("players", "guesses", "standings")
    row = {field.name: getattr(game, field.name) for field in fields(game) if field.name not in apart}
    return row | {"room": game.room.id, "settings": dict(game.settings)}


async def _write_segment(
    session: AsyncSession, queue: str, stream: str, records: Sequence[StreamRecord], sealed: bytes
) -> None:
    row: dict[str, Any] = {  # Any: one type per column
        "queue": queue,
        "stream": stream,
        "first_id": records[0].id,
        "last_id": records[-1].id,
        "count": len(records),
        "sha256": segment.digest(sealed),
        "sealed": sealed,
    }
    await _add(session, SegmentRow, [row])


async def _add(session: AsyncSession, table: type[Tables], rows: list[dict[str, Any]]) -> None:  # Any: per column
    if rows:
        # Without render_nulls the rows would be split into one statement per run of equal sets of columns.
        await session.execute(insert(table), rows, execution_options={"render_nulls": True})


async def _explain(
    store: Store, queue: str, stream: str, records: Sequence[StreamRecord], sealed: bytes
) -> AlreadyFolded | ArchiveConflict:
    same_range = select(SegmentRow.sha256).where(
        SegmentRow.queue == queue,
        SegmentRow.stream == stream,
        SegmentRow.first_id == records[0].id,
        SegmentRow.last_id == records[-1].id,
    )
    async with reading(store) as session:
        current = await _watermark(session, queue, stream)
        archived = await session.scalar(same_range)
    if archived is not None and archived != segment.digest(sealed):
        detail = f"{stream} is archived from {records[0].id} to {records[-1].id} with other content"
        return ArchiveConflict("diverged", detail, current)
    if current is not None and current.id >= records[-1].id:
        return AlreadyFolded(current)
    return ArchiveConflict("moved", f"{stream} is archived up to {current.id if current else 'nothing'}", current)


async def _watermark(session: AsyncSession, queue: str, stream: str) -> Watermark | None:
    row = await session.get(WatermarkRow, (queue, stream))
    return None if row is None else Watermark(row.watermark, row.epoch)


def _insert(session: AsyncSession, table: type[Tables]) -> postgresql.Insert | sqlite.Insert:
    if session.get_bind().dialect.name == "postgresql":
        return postgresql.insert(table)
    return sqlite.insert(table)


def _upsert(session: AsyncSession, table: type[Tables], changing: tuple[str, ...]) -> postgresql.Insert | sqlite.Insert:
    statement = _insert(session, table)
    return statement.on_conflict_do_update(
        index_elements=["id"], set_={column: statement.excluded[column] for column in changing}
    )
