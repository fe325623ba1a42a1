"""Users and workspaces."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision: str = "0003"
down_revision: str | None = "0002"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    op.create_table(
        "audit",
        sa.Column("sequence", sa.BigInteger(), nullable=False),
        sa.Column("workspace", sa.Text(), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("actor", sa.Text(), nullable=False),
        sa.Column("act", sa.Text(), nullable=False),
        sa.Column("target", sa.Text(), nullable=False),
        sa.Column("details", postgresql.JSONB(astext_type=sa.Text()), nullable=False),
        sa.Column("request_id", sa.Uuid(), nullable=False),
        sa.PrimaryKeyConstraint("sequence", name=op.f("pk_audit")),
        schema="gateway",
    )
    op.create_index(
        "ix_audit_workspace_sequence",
        "audit",
        ["workspace", "sequence"],
        unique=False,
        schema="gateway",
    )
    op.create_table(
        "device_logins",
        sa.Column("hash", sa.LargeBinary(), nullable=False),
        sa.Column("user_code", sa.Text(), nullable=False),
        sa.Column("device_name", sa.Text(), nullable=False),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("polled_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("denied", sa.Boolean(), nullable=False),
        sa.Column("user", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("hash", name=op.f("pk_device_logins")),
        sa.UniqueConstraint("user_code", name=op.f("uq_device_logins_user_code")),
        schema="gateway",
    )
    op.create_table(
        "invitations",
        sa.Column("hash", sa.LargeBinary(), nullable=False),
        sa.Column("user", sa.Text(), nullable=False),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("hash", name=op.f("pk_invitations")),
        schema="gateway",
    )
    op.create_index(
        op.f("ix_invitations_user"), "invitations", ["user"], unique=False, schema="gateway"
    )
    op.create_table(
        "members",
        sa.Column("workspace", sa.Text(), nullable=False),
        sa.Column("user", sa.Text(), nullable=False),
        sa.Column("role", sa.Text(), nullable=False),
        sa.Column("since", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("workspace", "user", name=op.f("pk_members")),
        schema="gateway",
    )
    op.create_index(op.f("ix_members_user"), "members", ["user"], unique=False, schema="gateway")
    op.create_table(
        "sessions",
        sa.Column("hash", sa.LargeBinary(), nullable=False),
        sa.Column("user", sa.Text(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("hash", name=op.f("pk_sessions")),
        schema="gateway",
    )
    op.create_index(op.f("ix_sessions_user"), "sessions", ["user"], unique=False, schema="gateway")
    op.create_table(
        "tokens",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("hash", sa.LargeBinary(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("user", sa.Text(), nullable=False),
        sa.Column("workspace", sa.Text(), nullable=True),
        sa.Column("scopes", postgresql.ARRAY(sa.Text()), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("last_used_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("revoked_at", sa.DateTime(timezone=True), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_tokens")),
        sa.UniqueConstraint("hash", name=op.f("uq_tokens_hash")),
        schema="gateway",
    )
    op.create_index(op.f("ix_tokens_user"), "tokens", ["user"], unique=False, schema="gateway")
    op.create_table(
        "users",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("email", sa.Text(), nullable=False),
        sa.Column("display_name", sa.Text(), nullable=False),
        sa.Column("operator", sa.Boolean(), nullable=False),
        sa.Column("password", sa.Text(), nullable=True),
        sa.Column("issuer", sa.Text(), nullable=True),
        sa.Column("subject", sa.Text(), nullable=True),
        sa.Column("disabled_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("created_by", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_users")),
        sa.UniqueConstraint("email", name=op.f("uq_users_email")),
        sa.UniqueConstraint("issuer", "subject", name=op.f("uq_users_issuer_subject")),
        schema="gateway",
    )
    op.create_table(
        "workspaces",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("repository", sa.Text(), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("created_by", sa.Text(), nullable=False),
        sa.Column("removed_at", sa.DateTime(timezone=True), nullable=True),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_workspaces")),
        sa.UniqueConstraint("repository", name=op.f("uq_workspaces_repository")),
        schema="gateway",
    )
    op.execute(
        """
        INSERT INTO gateway.users (name, email, display_name, operator, created_at, created_by)
        VALUES ('admin', 'admin@localhost', 'Administrator', true, now(), 'installation')
        """
    )
    # Before there were workspaces, a name was enough to have one.
    op.execute(
        """
        INSERT INTO gateway.workspaces (name, created_at, created_by)
        SELECT name, now(), 'installation'
        FROM (
            SELECT 'default' AS name
            UNION SELECT workspace FROM gateway.run_names
            UNION SELECT workspace FROM gateway.secrets
        ) AS known
        """
    )
    op.execute(
        """
        INSERT INTO gateway.members (workspace, "user", role, since)
        SELECT name, 'admin', 'owner', now() FROM gateway.workspaces
        """
    )


def downgrade() -> None:
    op.drop_table("workspaces", schema="gateway")
    op.drop_table("users", schema="gateway")
    op.drop_index(op.f("ix_tokens_user"), table_name="tokens", schema="gateway")
    op.drop_table("tokens", schema="gateway")
    op.drop_index(op.f("ix_sessions_user"), table_name="sessions", schema="gateway")
    op.drop_table("sessions", schema="gateway")
    op.drop_index(op.f("ix_members_user"), table_name="members", schema="gateway")
    op.drop_table("members", schema="gateway")
    op.drop_index(op.f("ix_invitations_user"), table_name="invitations", schema="gateway")
    op.drop_table("invitations", schema="gateway")
    op.drop_table("device_logins", schema="gateway")
    op.drop_index("ix_audit_workspace_sequence", table_name="audit", schema="gateway")
    op.drop_table("audit", schema="gateway")
