"""Sessions that query have a workspace."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0007"
down_revision: str | None = "0006"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    op.create_table(
        "sql_sessions",
        sa.Column("pid", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("workspace", sa.Text(), nullable=False),
        sa.Column("since", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("pid", name=op.f("pk_sql_sessions")),
        schema="gateway",
    )


def downgrade() -> None:
    op.drop_table("sql_sessions", schema="gateway")
