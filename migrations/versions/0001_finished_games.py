"""Create the tables of finished games: players, rooms, games, guesses, standings, segments, watermarks."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

# Types as they were at this revision; later changes of the models must not change it.
BRANDED = sa.String(14).with_variant(sa.String(14, collation="C"), "postgresql")
STREAM_NAME = sa.String(128).with_variant(sa.String(128, collation="C"), "postgresql")
JSON_VALUE = sa.JSON().with_variant(postgresql.JSONB(), "postgresql")
UTC_TIME = sa.DateTime(timezone=True)


def upgrade() -> None:
    op.create_table(
        "players",
        sa.Column("id", BRANDED, nullable=False),
        sa.Column("user_id", sa.BigInteger(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("lang", sa.String(length=35), nullable=False),
        sa.Column("created_at", UTC_TIME, nullable=False),
        sa.CheckConstraint("length(id) = 14 AND substr(id, 1, 3) = 'PLR'", name=op.f("ck_players_id_brand")),
        sa.CheckConstraint("user_id > 0", name=op.f("ck_players_user_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_players")),
        sa.UniqueConstraint("user_id", name=op.f("uq_players_user_id")),
    )
    op.create_table(
        "rooms",
        sa.Column("id", BRANDED, nullable=False),
        sa.Column("chat_id", sa.BigInteger(), nullable=False),
        sa.Column("thread_id", sa.BigInteger(), nullable=True),
        sa.Column("kind", sa.String(length=16), nullable=False),
        sa.Column("title", sa.Text(), nullable=False),
        sa.CheckConstraint("length(id) = 14 AND substr(id, 1, 3) = 'ROM'", name=op.f("ck_rooms_id_brand")),
        sa.CheckConstraint("thread_id IS NULL OR thread_id > 0", name=op.f("ck_rooms_thread_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_rooms")),
    )
    op.create_index("uq_rooms_chat_thread", "rooms", ["chat_id", sa.text("coalesce(thread_id, 0)")], unique=True)
    op.create_table(
        "segments",
        sa.Column("queue", STREAM_NAME, nullable=False),
        sa.Column("stream", STREAM_NAME, nullable=False),
        sa.Column("first_id", BRANDED, nullable=False),
        sa.Column("last_id", BRANDED, nullable=False),
        sa.Column("count", sa.Integer(), nullable=False),
        sa.Column("sha256", sa.String(length=64), nullable=False),
        sa.Column("bytes", sa.LargeBinary(), nullable=False),
        sa.CheckConstraint("count >= 1", name=op.f("ck_segments_count")),
        sa.CheckConstraint("first_id <= last_id", name=op.f("ck_segments_range")),
        sa.CheckConstraint("length(sha256) = 64", name=op.f("ck_segments_sha256")),
        sa.PrimaryKeyConstraint("queue", "stream", "first_id", name=op.f("pk_segments")),
        sa.UniqueConstraint("queue", "stream", "last_id", name=op.f("uq_segments_queue_stream_last_id")),
    )
    op.create_index("ix_segments_stream", "segments", ["stream"], unique=False)
    op.create_table(
        "watermarks",
        sa.Column("queue", STREAM_NAME, nullable=False),
        sa.Column("stream", STREAM_NAME, nullable=False),
        sa.Column("watermark", BRANDED, nullable=False),
        sa.Column("epoch", sa.BigInteger(), nullable=False),
        sa.CheckConstraint("epoch >= 1", name=op.f("ck_watermarks_epoch")),
        sa.PrimaryKeyConstraint("queue", "stream", name=op.f("pk_watermarks")),
    )
    op.create_table(
        "games",
        sa.Column("id", BRANDED, nullable=False),
        sa.Column("room", BRANDED, nullable=False),
        sa.Column("preset", sa.String(length=16), nullable=False),
        sa.Column("mode", sa.String(length=16), nullable=False),
        sa.Column("settings", JSON_VALUE, nullable=False),
        sa.Column("commitment", sa.String(length=64), nullable=False),
        sa.Column("secret", JSON_VALUE, nullable=True),
        sa.Column("nonce", sa.String(length=32), nullable=True),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("reason", sa.String(length=32), nullable=True),
        sa.Column("winner", BRANDED, nullable=True),
        sa.Column("opened_at", UTC_TIME, nullable=False),
        sa.Column("closed_at", UTC_TIME, nullable=True),
        sa.Column("cut", sa.Integer(), nullable=True),
        sa.CheckConstraint("(state = 'live') = (closed_at IS NULL)", name=op.f("ck_games_closed_at")),
        sa.CheckConstraint("(state = 'live') = (nonce IS NULL)", name=op.f("ck_games_nonce")),
        sa.CheckConstraint("(state = 'live') = (reason IS NULL)", name=op.f("ck_games_reason")),
        sa.CheckConstraint("(state = 'live') = (secret IS NULL)", name=op.f("ck_games_secret")),
        sa.CheckConstraint("length(id) = 14 AND substr(id, 1, 3) = 'GAM'", name=op.f("ck_games_id_brand")),
        sa.CheckConstraint("mode IN ('race', 'team', 'duel', 'solo', 'daily')", name=op.f("ck_games_mode")),
        sa.CheckConstraint("state IN ('live', 'closed', 'settled')", name=op.f("ck_games_state")),
        sa.CheckConstraint("cut IS NULL OR cut >= 1", name=op.f("ck_games_cut")),
        sa.CheckConstraint("length(commitment) = 64", name=op.f("ck_games_commitment")),
        sa.ForeignKeyConstraint(["room"], ["rooms.id"], name=op.f("fk_games_room")),
        sa.ForeignKeyConstraint(["winner"], ["players.id"], name=op.f("fk_games_winner")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_games")),
    )
    op.create_index("ix_games_room_id", "games", ["room", "id"], unique=False)
    op.create_index(
        "uq_games_live_room",
        "games",
        ["room"],
        unique=True,
        sqlite_where=sa.text("state = 'live'"),
        postgresql_where=sa.text("state = 'live'"),
    )
    op.create_table(
        "guesses",
        sa.Column("id", BRANDED, nullable=False),
        sa.Column("game", BRANDED, nullable=False),
        sa.Column("player", BRANDED, nullable=False),
        sa.Column("seq", sa.Integer(), nullable=False),
        sa.Column("try_no", sa.Integer(), nullable=False),
        sa.Column("code", JSON_VALUE, nullable=False),
        sa.Column("total", sa.Integer(), nullable=True),
        sa.Column("exact", sa.Integer(), nullable=True),
        sa.Column("misplaced", sa.Integer(), nullable=True),
        sa.Column("tiles", sa.String(length=8), nullable=True),
        sa.Column("void", sa.Boolean(), nullable=False),
        sa.CheckConstraint("length(id) = 14 AND substr(id, 1, 3) = 'GES'", name=op.f("ck_guesses_id_brand")),
        sa.CheckConstraint("seq >= 1", name=op.f("ck_guesses_seq")),
        sa.CheckConstraint("total IS NULL OR total BETWEEN 0 AND 800", name=op.f("ck_guesses_total")),
        sa.CheckConstraint("try_no >= 1", name=op.f("ck_guesses_try_no")),
        sa.CheckConstraint("void OR total IS NOT NULL", name=op.f("ck_guesses_scored")),
        sa.ForeignKeyConstraint(["game"], ["games.id"], name=op.f("fk_guesses_game")),
        sa.ForeignKeyConstraint(["player"], ["players.id"], name=op.f("fk_guesses_player")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_guesses")),
        sa.UniqueConstraint("game", "seq", name=op.f("uq_guesses_game_seq")),
    )
    op.create_index("ix_guesses_player", "guesses", ["player"], unique=False)
    op.create_table(
        "standings",
        sa.Column("game", BRANDED, nullable=False),
        sa.Column("player", BRANDED, nullable=False),
        sa.Column("rank", sa.Integer(), nullable=False),
        sa.Column("best_total", sa.Integer(), nullable=False),
        sa.Column("best_seq", sa.Integer(), nullable=True),
        sa.Column("tries", sa.Integer(), nullable=False),
        sa.Column("points", sa.Integer(), nullable=False),
        sa.Column("cracked", sa.Boolean(), nullable=False),
        sa.CheckConstraint("points >= 0", name=op.f("ck_standings_points")),
        sa.CheckConstraint("rank >= 1", name=op.f("ck_standings_rank")),
        sa.CheckConstraint("tries >= 0", name=op.f("ck_standings_tries")),
        sa.ForeignKeyConstraint(["game"], ["games.id"], name=op.f("fk_standings_game")),
        sa.ForeignKeyConstraint(["player"], ["players.id"], name=op.f("fk_standings_player")),
        sa.PrimaryKeyConstraint("game", "player", name=op.f("pk_standings")),
    )
    op.create_index("ix_standings_player", "standings", ["player"], unique=False)


def downgrade() -> None:
    for table in ("standings", "guesses", "games", "watermarks", "segments", "rooms", "players"):
        op.drop_table(table)
