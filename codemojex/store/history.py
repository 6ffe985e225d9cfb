"""Reads what the durable store remembers: games, their streams, rooms and people.

A stream comes back from its sealed segments, record by record as it was written, so that folding it again gives the
same board. Nothing here changes anything; an unknown id is None or empty, never an error.
"""

from collections.abc import Sequence

from sqlalchemy import func, select

from codemojex.store import segment
from codemojex.store.engine import Store, reading
from codemojex.store.records import (
    ArchivedGame,
    ArchivedGuess,
    ArchivedPlayer,
    ArchivedRoom,
    ArchivedStanding,
    StreamRecord,
)
from codemojex.store.tables import GameRow, GuessRow, PlayerRow, RoomRow, SegmentRow, StandingRow


async def read_game(store: Store, game_id: str) -> ArchivedGame | None:
    """The archived game with everything that belongs to it; guesses by seq, standings by rank, players by id."""
    async with reading(store) as session:
        game = await session.get(GameRow, game_id)
        if game is None:
            return None
        room = await session.get_one(RoomRow, game.room)
        guesses = await session.scalars(select(GuessRow).where(GuessRow.game == game_id).order_by(GuessRow.seq))
        places = await session.scalars(
            select(StandingRow)
            .where(StandingRow.game == game_id)
            .order_by(StandingRow.rank, StandingRow.best_seq, StandingRow.player)
        )
        guess_rows, place_rows = guesses.all(), places.all()
        named = {row.player for row in (*guess_rows, *place_rows)} | ({game.winner} if game.winner else set[str]())
        people = await session.scalars(select(PlayerRow).where(PlayerRow.id.in_(named)).order_by(PlayerRow.id))
        return _game(game, room, [_player(row) for row in people], guess_rows, place_rows)


async def read_records(store: Store, game_id: str) -> list[StreamRecord]:
    """The records of a game's stream that are archived, in order of id; empty for a game that is not.

    Raises `SegmentDamaged` rather than give back a part.
    """
    sealed = select(SegmentRow).where(SegmentRow.stream == game_id).order_by(SegmentRow.first_id)
    async with reading(store) as session:
        rows = (await session.scalars(sealed)).all()
    return [
        record for row in rows for record in segment.decode(row.sealed, name=f"{row.queue}/{row.stream}/{row.first_id}")
    ]


async def find_room(store: Store, chat_id: int, thread_id: int | None = None) -> ArchivedRoom | None:
    """The room of a chat, or of one of its topics."""
    found = select(RoomRow).where(RoomRow.chat_id == chat_id, func.coalesce(RoomRow.thread_id, 0) == (thread_id or 0))
    async with reading(store) as session:
        row = await session.scalar(found)
    return None if row is None else _room(row)


async def find_player(store: Store, user_id: int) -> ArchivedPlayer | None:
    """The player that a Telegram user is."""
    async with reading(store) as session:
        row = await session.scalar(select(PlayerRow).where(PlayerRow.user_id == user_id))
    return None if row is None else _player(row)


async def last_game_of_room(store: Store, room_id: str) -> ArchivedGame | None:
    """The room's archived game that was opened last."""
    newest = select(GameRow.id).where(GameRow.room == room_id).order_by(GameRow.id.desc()).limit(1)
    async with reading(store) as session:
        game_id = await session.scalar(newest)
    return None if game_id is None else await read_game(store, game_id)


def _player(row: PlayerRow) -> ArchivedPlayer:
    return ArchivedPlayer(id=row.id, user_id=row.user_id, name=row.name, lang=row.lang, created_at=row.created_at)


def _room(row: RoomRow) -> ArchivedRoom:
    return ArchivedRoom(id=row.id, chat_id=row.chat_id, thread_id=row.thread_id, kind=row.kind, title=row.title)


def _guess(row: GuessRow) -> ArchivedGuess:
    return ArchivedGuess(
        id=row.id,
        player=row.player,
        seq=row.seq,
        try_no=row.try_no,
        code=tuple(row.code),
        total=row.total,
        exact=row.exact,
        misplaced=row.misplaced,
        tiles=row.tiles,
        void=row.void,
    )


def _standing(row: StandingRow) -> ArchivedStanding:
    return ArchivedStanding(
        player=row.player,
        rank=row.rank,
        best_total=row.best_total,
        best_seq=row.best_seq,
        tries=row.tries,
        points=row.points,
        cracked=row.cracked,
    )


def _game(
    row: GameRow,
    room: RoomRow,
    players: Sequence[ArchivedPlayer],
    guesses: Sequence[GuessRow],
    standings: Sequence[StandingRow],
) -> ArchivedGame:
    return ArchivedGame(
        id=row.id,
        room=_room(room),
        players=tuple(players),
        preset=row.preset,
        mode=row.mode,
        settings=row.settings,
        commitment=row.commitment,
        secret=None if row.secret is None else tuple(row.secret),
        nonce=row.nonce,
        state=row.state,
        reason=row.reason,
        winner=row.winner,
        opened_at=row.opened_at,
        closed_at=row.closed_at,
        cut=row.cut,
        guesses=tuple(_guess(guess) for guess in guesses),
        standings=tuple(_standing(place) for place in standings),
    )
