"""Runs can be deleted."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0003"
down_revision: str | None = "0002"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    op.add_column("runs", sa.Column("deleted", sa.BigInteger()), schema="leaderboard")


def downgrade() -> None:
    op.drop_column("runs", "deleted", schema="leaderboard")
