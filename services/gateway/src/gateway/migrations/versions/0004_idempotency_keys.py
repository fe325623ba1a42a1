"""Answers under idempotency keys."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0004"
down_revision: str | None = "0003"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    op.create_table(
        "idempotency_keys",
        sa.Column("workspace", sa.Text(), nullable=False),
        sa.Column("caller", sa.Text(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("fingerprint", sa.LargeBinary(), nullable=False),
        sa.Column("permissions", sa.Text(), nullable=False),
        sa.Column("begun_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("held_until", sa.DateTime(timezone=True), nullable=False),
        sa.Column("status", sa.Integer(), nullable=True),
        sa.Column("media_type", sa.Text(), nullable=True),
        sa.Column("body", sa.LargeBinary(), nullable=True),
        sa.PrimaryKeyConstraint("workspace", "caller", "key", name=op.f("pk_idempotency_keys")),
        schema="gateway",
    )
    op.create_index(
        "ix_idempotency_keys_begun_at", "idempotency_keys", ["begun_at"], schema="gateway"
    )


def downgrade() -> None:
    op.drop_index("ix_idempotency_keys_begun_at", table_name="idempotency_keys", schema="gateway")
    op.drop_table("idempotency_keys", schema="gateway")
