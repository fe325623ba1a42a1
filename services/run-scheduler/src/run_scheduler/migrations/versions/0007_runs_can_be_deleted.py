"""Runs can be deleted: what was spent is known by its run; runs are paged by time and id."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0007"
down_revision: str | None = "0006"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    # The rows are folded anew by the new version of the projection.
    op.execute("TRUNCATE run_scheduler.spendings")
    op.add_column("spendings", sa.Column("run", sa.Uuid(), nullable=False), schema="run_scheduler")
    op.create_index("ix_spendings_run", "spendings", ["run"], schema="run_scheduler")
    op.drop_index("ix_runs_workspace", table_name="runs", schema="run_scheduler")
    op.create_index(
        "ix_runs_workspace", "runs", ["workspace", "submitted_at", "id"], schema="run_scheduler"
    )


def downgrade() -> None:
    op.drop_index("ix_runs_workspace", table_name="runs", schema="run_scheduler")
    op.create_index(
        "ix_runs_workspace", "runs", ["workspace", "submitted_at"], schema="run_scheduler"
    )
    op.drop_index("ix_spendings_run", table_name="spendings", schema="run_scheduler")
    op.drop_column("spendings", "run", schema="run_scheduler")
