"""A result for each slot, to be listed in any order."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0004"
down_revision: str | None = "0003"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None

_PLACE = ("agent", "task", "attempt")
_ORDERS = {
    "ix_results_agent": _PLACE,
    "ix_results_task": ("task", "agent", "attempt"),
    "ix_results_attempt": ("attempt", "agent", "task"),
    "ix_results_category": ("category", *_PLACE),
    "ix_results_outcome": ("outcome", *_PLACE),
    "ix_results_reward": ("reward", *_PLACE),
    "ix_results_seconds": ("seconds", *_PLACE),
    "ix_results_cost_usd": ("cost_usd", *_PLACE),
    "ix_results_tokens": ("tokens", *_PLACE),
}


def upgrade() -> None:
    # The rows follow when the new version of the projection folds every event anew.
    op.create_table(
        "results",
        sa.Column("slot", sa.Uuid(), nullable=False),
        sa.Column("run", sa.Uuid(), nullable=False),
        sa.Column("agent", sa.Integer(), nullable=False),
        sa.Column("task", sa.Text(), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("try_number", sa.Integer(), nullable=False),
        sa.Column("delivery", sa.Integer(), nullable=False),
        sa.Column("outcome", sa.Text(), nullable=True),
        sa.Column("cause", sa.Text(), nullable=True),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.Column("category", sa.Text(), nullable=True),
        sa.Column("reward", sa.Double(), nullable=True),
        sa.Column("seconds", sa.Double(), nullable=True),
        sa.Column("cost_usd", sa.Double(), nullable=True),
        sa.Column("tokens", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("slot", name=op.f("pk_results")),
        schema="grader",
    )
    for name, columns in _ORDERS.items():
        op.create_index(name, "results", ["run", *columns], schema="grader")
    op.create_index(
        "ix_results_problems",
        "results",
        ["run", *_PLACE],
        schema="grader",
        postgresql_where=sa.text("reason IS NOT NULL AND outcome <> 'passed'"),
    )
    op.add_column(
        "agent_metrics",
        sa.Column("slots", sa.Integer(), server_default="0", nullable=False),
        schema="grader",
    )
    op.alter_column("agent_metrics", "slots", server_default=None, schema="grader")


def downgrade() -> None:
    op.drop_column("agent_metrics", "slots", schema="grader")
    op.drop_table("results", schema="grader")
