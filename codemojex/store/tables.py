"""The tables of the durable store, one set for SQLite and PostgreSQL.

Constraints, not code, keep every promise of once-ness: one live game per room, one row per guess id and per
(game, seq), one standing per game and player, one watermark per stream. Migrations must build exactly these tables.
Branded ids are compared by bytes (collation "C"), which is their order in time.
"""

from datetime import UTC, datetime
from typing import Any

from sqlalchemy import (
    JSON,
    BigInteger,
    CheckConstraint,
    DateTime,
    Dialect,
    ForeignKey,
    Index,
    LargeBinary,
    MetaData,
    String,
    Text,
    TypeDecorator,
    UniqueConstraint,
    func,
    text,
)
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

BRANDED = String(14).with_variant(String(14, collation="C"), "postgresql")
STREAM_NAME = String(128).with_variant(String(128, collation="C"), "postgresql")
JSON_VALUE = JSON().with_variant(JSONB(), "postgresql")


class UtcTime(TypeDecorator[datetime]):
    """A moment: aware in Python, `timestamptz` in PostgreSQL, text in UTC in SQLite."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """Refuse a naive moment rather than guess its zone."""
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError(f"naive datetime {value}; pass an aware one in UTC")
        return value.astimezone(UTC)

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """Give every moment back in UTC."""
        if value is None:
            return None
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


class Tables(DeclarativeBase):
    """The registry of all tables; `Tables.metadata` is what migrations are compared with."""

    metadata = MetaData(
        naming_convention={
            "pk": "pk_%(table_name)s",
            "fk": "fk_%(table_name)s_%(column_0_name)s",
            "uq": "uq_%(table_name)s_%(column_0_N_name)s",
            "ck": "ck_%(table_name)s_%(constraint_name)s",
            "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        }
    )


def _brand(column: str, namespace: str) -> CheckConstraint:
    return CheckConstraint(f"length({column}) = 14 AND substr({column}, 1, 3) = '{namespace}'", name=f"{column}_brand")


class PlayerRow(Tables):
    """A person who has played a finished game."""

    __tablename__ = "players"
    __table_args__ = (_brand("id", "PLR"), CheckConstraint("user_id > 0", name="user_id"))

    id: Mapped[str] = mapped_column(BRANDED, primary_key=True)
    user_id: Mapped[int] = mapped_column(BigInteger, unique=True)
    name: Mapped[str] = mapped_column(Text)
    lang: Mapped[str] = mapped_column(String(35))
    created_at: Mapped[datetime] = mapped_column(UtcTime)


class RoomRow(Tables):
    """A chat, or one topic of a chat, in which a finished game was played."""

    __tablename__ = "rooms"

    id: Mapped[str] = mapped_column(BRANDED, primary_key=True)
    chat_id: Mapped[int] = mapped_column(BigInteger)
    thread_id: Mapped[int | None] = mapped_column(BigInteger)
    kind: Mapped[str] = mapped_column(String(16))
    title: Mapped[str] = mapped_column(Text)

    __table_args__ = (
        _brand("id", "ROM"),
        CheckConstraint("thread_id IS NULL OR thread_id > 0", name="thread_id"),
        Index("uq_rooms_chat_thread", chat_id, func.coalesce(thread_id, text("0")), unique=True),
    )


class GameRow(Tables):
    """A game; its secret and nonce are known exactly when it is not live."""

    __tablename__ = "games"

    id: Mapped[str] = mapped_column(BRANDED, primary_key=True)
    room: Mapped[str] = mapped_column(BRANDED, ForeignKey("rooms.id"))
    preset: Mapped[str] = mapped_column(String(16))
    mode: Mapped[str] = mapped_column(String(16))
    settings: Mapped[dict[str, Any]] = mapped_column(JSON_VALUE)
    commitment: Mapped[str] = mapped_column(String(64))
    # none_as_null: an unknown secret is SQL NULL, not the JSON value null, so that the check below sees it.
    secret: Mapped[list[str] | None] = mapped_column(
        JSON(none_as_null=True).with_variant(JSONB(none_as_null=True), "postgresql")
    )
    nonce: Mapped[str | None] = mapped_column(String(32))
    state: Mapped[str] = mapped_column(String(16))
    reason: Mapped[str | None] = mapped_column(String(32))
    winner: Mapped[str | None] = mapped_column(BRANDED, ForeignKey("players.id"))
    opened_at: Mapped[datetime] = mapped_column(UtcTime)
    closed_at: Mapped[datetime | None] = mapped_column(UtcTime)
    cut: Mapped[int | None]

    __table_args__ = (
        _brand("id", "GAM"),
        CheckConstraint("mode IN ('race', 'team', 'duel', 'solo', 'daily')", name="mode"),
        CheckConstraint("state IN ('live', 'closed', 'settled')", name="state"),
        CheckConstraint("length(commitment) = 64", name="commitment"),
        CheckConstraint("(state = 'live') = (secret IS NULL)", name="secret"),
        CheckConstraint("(state = 'live') = (nonce IS NULL)", name="nonce"),
        CheckConstraint("(state = 'live') = (reason IS NULL)", name="reason"),
        CheckConstraint("(state = 'live') = (closed_at IS NULL)", name="closed_at"),
        CheckConstraint("cut IS NULL OR cut >= 1", name="cut"),
        Index(
            "uq_games_live_room",
            room,
            unique=True,
            sqlite_where=text("state = 'live'"),
            postgresql_where=text("state = 'live'"),
        ),
        Index("ix_games_room_id", room, id),
    )


class GuessRow(Tables):
    """One accepted guess of a game."""

    __tablename__ = "guesses"
    __table_args__ = (
        _brand("id", "GES"),
        UniqueConstraint("game", "seq"),
        CheckConstraint("seq >= 1", name="seq"),
        CheckConstraint("try_no >= 1", name="try_no"),
        CheckConstraint("total IS NULL OR total BETWEEN 0 AND 800", name="total"),
        CheckConstraint("void OR total IS NOT NULL", name="scored"),
        Index("ix_guesses_player", "player"),
    )

    id: Mapped[str] = mapped_column(BRANDED, primary_key=True)
    game: Mapped[str] = mapped_column(BRANDED, ForeignKey("games.id"))
    player: Mapped[str] = mapped_column(BRANDED, ForeignKey("players.id"))
    seq: Mapped[int]
    try_no: Mapped[int]
    code: Mapped[list[str]] = mapped_column(JSON_VALUE)
    total: Mapped[int | None]
    exact: Mapped[int | None]
    misplaced: Mapped[int | None]
    tiles: Mapped[str | None] = mapped_column(String(8))
    void: Mapped[bool]


class StandingRow(Tables):
    """One player's place in one game."""

    __tablename__ = "standings"
    __table_args__ = (
        CheckConstraint("rank >= 1", name="rank"),
        CheckConstraint("tries >= 0", name="tries"),
        CheckConstraint("points >= 0", name="points"),
        Index("ix_standings_player", "player"),
    )

    game: Mapped[str] = mapped_column(BRANDED, ForeignKey("games.id"), primary_key=True)
    player: Mapped[str] = mapped_column(BRANDED, ForeignKey("players.id"), primary_key=True)
    rank: Mapped[int]
    best_total: Mapped[int]
    best_seq: Mapped[int | None]
    tries: Mapped[int]
    points: Mapped[int]
    cracked: Mapped[bool]


class SegmentRow(Tables):
    """Sealed bytes of a range of one stream; `sha256` is the digest of its records, whatever compressed them."""

    __tablename__ = "segments"
    __table_args__ = (
        UniqueConstraint("queue", "stream", "last_id"),
        CheckConstraint("first_id <= last_id", name="range"),
        CheckConstraint("count >= 1", name="count"),
        CheckConstraint("length(sha256) = 64", name="sha256"),
        Index("ix_segments_stream", "stream"),
    )

    queue: Mapped[str] = mapped_column(STREAM_NAME, primary_key=True)
    stream: Mapped[str] = mapped_column(STREAM_NAME, primary_key=True)
    first_id: Mapped[str] = mapped_column(BRANDED, primary_key=True)
    last_id: Mapped[str] = mapped_column(BRANDED)
    count: Mapped[int]
    sha256: Mapped[str] = mapped_column(String(64))
    sealed: Mapped[bytes] = mapped_column("bytes", LargeBinary)


class WatermarkRow(Tables):
    """How far one stream is archived; swapped by compare-and-swap in the transaction that seals its segment."""

    __tablename__ = "watermarks"
    __table_args__ = (CheckConstraint("epoch >= 1", name="epoch"),)

    queue: Mapped[str] = mapped_column(STREAM_NAME, primary_key=True)
    stream: Mapped[str] = mapped_column(STREAM_NAME, primary_key=True)
    watermark: Mapped[str] = mapped_column(BRANDED)
    epoch: Mapped[int] = mapped_column(BigInteger)


class DeploymentRow(Tables):
    """The name of this store, and the bot, namespace and server that it belongs to; there is one row."""

    __tablename__ = "deployment"
    __table_args__ = (CheckConstraint("id = 1", name="one"),)

    id: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    store: Mapped[str] = mapped_column(String(32))
    bot_id: Mapped[int | None] = mapped_column(BigInteger)
    namespace: Mapped[str | None] = mapped_column(String(24))
    bus: Mapped[str | None] = mapped_column(String(32))
    place: Mapped[str | None] = mapped_column(Text)
    seen_at: Mapped[datetime | None] = mapped_column(UtcTime)
