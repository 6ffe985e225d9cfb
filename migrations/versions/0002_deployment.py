"""Create the table that says whose the store is: deployment."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "deployment",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("store", sa.String(length=32), nullable=False),
        sa.Column("bot_id", sa.BigInteger(), nullable=True),
        sa.Column("namespace", sa.String(length=24), nullable=True),
        sa.Column("bus", sa.String(length=32), nullable=True),
        sa.Column("place", sa.Text(), nullable=True),
        sa.Column("seen_at", sa.DateTime(timezone=True), nullable=True),
        sa.CheckConstraint("id = 1", name=op.f("ck_deployment_one")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_deployment")),
    )


def downgrade() -> None:
    op.drop_table("deployment")
