"""A secret names its master key."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0005"
down_revision: str | None = "0004"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    op.add_column("secrets", sa.Column("key_id", sa.Text(), nullable=True), schema="gateway")


def downgrade() -> None:
    op.drop_column("secrets", "key_id", schema="gateway")
