"""A workspace has a budget."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0006"
down_revision: str | None = "0005"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    op.create_table(
        "billing_limits",
        sa.Column("workspace", sa.Text(), nullable=False),
        sa.Column("usd", sa.Numeric(), nullable=True),
        sa.Column("sandbox_hours", sa.Numeric(), nullable=True),
        sa.Column("updated_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("updated_by", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("workspace", name=op.f("pk_billing_limits")),
        schema="gateway",
    )
    op.create_table(
        "billing_reservations",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("workspace", sa.Text(), nullable=False),
        sa.Column("run", sa.Uuid(), nullable=False),
        sa.Column("opening", sa.Integer(), nullable=False),
        sa.Column("usd", sa.Numeric(), nullable=False),
        sa.Column("seconds", sa.Numeric(), nullable=False),
        sa.Column("usd_before", sa.Numeric(), nullable=False),
        sa.Column("seconds_before", sa.Numeric(), nullable=False),
        sa.Column("reserved_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_billing_reservations")),
        schema="gateway",
    )
    op.create_index(
        "ix_billing_reservations_workspace", "billing_reservations", ["workspace"], schema="gateway"
    )
    op.create_table(
        "spending_runs",
        sa.Column("run", sa.Uuid(), nullable=False),
        sa.Column("workspace", sa.Text(), nullable=False),
        sa.Column("openings", sa.Integer(), nullable=False),
        sa.Column("ended", sa.Boolean(), nullable=False),
        sa.Column("usd", sa.Numeric(), nullable=False),
        sa.Column("seconds", sa.Numeric(), nullable=False),
        sa.PrimaryKeyConstraint("run", name=op.f("pk_spending_runs")),
        schema="gateway",
    )
    op.create_table(
        "spending_months",
        sa.Column("workspace", sa.Text(), nullable=False),
        sa.Column("month", sa.Text(), nullable=False),
        sa.Column("usd", sa.Numeric(), nullable=False),
        sa.Column("seconds", sa.Numeric(), nullable=False),
        sa.Column("tries_without_cost", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("workspace", "month", name=op.f("pk_spending_months")),
        schema="gateway",
    )
    op.create_table(
        "spending_tries",
        sa.Column("slot", sa.Uuid(), nullable=False),
        sa.Column("try_number", sa.Integer(), nullable=False),
        sa.Column("delivery", sa.Integer(), nullable=False),
        sa.Column("by_judge", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint(
            "slot", "try_number", "delivery", "by_judge", name=op.f("pk_spending_tries")
        ),
        schema="gateway",
    )


def downgrade() -> None:
    op.drop_table("spending_tries", schema="gateway")
    op.drop_table("spending_months", schema="gateway")
    op.drop_table("spending_runs", schema="gateway")
    op.drop_index(
        "ix_billing_reservations_workspace", table_name="billing_reservations", schema="gateway"
    )
    op.drop_table("billing_reservations", schema="gateway")
    op.drop_table("billing_limits", schema="gateway")
