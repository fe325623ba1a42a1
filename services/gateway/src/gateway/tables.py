"""The gateway's own tables: names that runs have taken, secrets, people, what they did, billing,
sessions that query, and answers under idempotency keys.

`audit`, `spending_runs`, `spending_months` and `spending_tries` are projections and can be rebuilt.
Money and time are `Numeric`, whose sums come out the same in whatever order they are made.
"""

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    DateTime,
    Index,
    Integer,
    LargeBinary,
    Numeric,
    Table,
    Text,
    UniqueConstraint,
    Uuid,
)
from sqlalchemy.dialects.postgresql import ARRAY, JSONB

from assay_kernel.tables import kernel_tables, service_metadata

SCHEMA = "gateway"

metadata = service_metadata(SCHEMA)
kernel = kernel_tables(metadata)

run_names = Table(
    "run_names",
    metadata,
    Column("workspace", Text, primary_key=True),
    Column("name", Text, primary_key=True),
    Column("run", Uuid, nullable=False),
)

secrets = Table(
    "secrets",
    metadata,
    Column("workspace", Text, primary_key=True),
    Column("scope", Text, primary_key=True, doc="`workspace`, `user` or `run`"),
    Column("owner", Text, primary_key=True, doc="the user or the run; empty for the workspace"),
    Column("name", Text, primary_key=True),
    Column("key_id", Text, doc="the master key; null where it dates from when there was one"),
    Column("wrapped_key", LargeBinary, nullable=False, doc="the record's own key, encrypted"),
    Column("sealed", LargeBinary, nullable=False),
    Column("created_at", DateTime(timezone=True), nullable=False),
    Column("updated_at", DateTime(timezone=True), nullable=False),
    Column("updated_by", Text, nullable=False),
)

workspaces = Table(
    "workspaces",
    metadata,
    Column("name", Text, primary_key=True),
    Column("repository", Text, nullable=True, unique=True, doc="for Osmosis clients: owner/name"),
    Column("created_at", DateTime(timezone=True), nullable=False),
    Column("created_by", Text, nullable=False),
    Column("removed_at", DateTime(timezone=True), nullable=True, doc="its name stays taken"),
)

users = Table(
    "users",
    metadata,
    Column("name", Text, primary_key=True),
    Column("email", Text, nullable=False, unique=True, doc="in small letters"),
    Column("display_name", Text, nullable=False),
    Column("operator", Boolean, nullable=False),
    Column("password", Text, nullable=True, doc="its Argon2 hash"),
    Column("issuer", Text, nullable=True, doc="of OpenID Connect"),
    Column("subject", Text, nullable=True, doc="at the issuer"),
    Column("disabled_at", DateTime(timezone=True), nullable=True),
    Column("created_at", DateTime(timezone=True), nullable=False),
    Column("created_by", Text, nullable=False),
    UniqueConstraint("issuer", "subject"),
)

members = Table(
    "members",
    metadata,
    Column("workspace", Text, primary_key=True),
    Column("user", Text, primary_key=True, index=True),
    Column("role", Text, nullable=False),
    Column("since", DateTime(timezone=True), nullable=False),
)

tokens = Table(
    "tokens",
    metadata,
    Column("id", Uuid, primary_key=True),
    Column("hash", LargeBinary, nullable=False, unique=True, doc="SHA-256 of the token"),
    Column("name", Text, nullable=False),
    Column("user", Text, nullable=False, index=True),
    Column("workspace", Text, nullable=True, doc="the only one it is good for; null is any"),
    Column("scopes", ARRAY(Text), nullable=True, doc="permissions it is cut to; null is none"),
    Column("created_at", DateTime(timezone=True), nullable=False),
    Column("expires_at", DateTime(timezone=True), nullable=True),
    Column("last_used_at", DateTime(timezone=True), nullable=True),
    Column("revoked_at", DateTime(timezone=True), nullable=True),
)

sessions = Table(
    "sessions",
    metadata,
    Column("hash", LargeBinary, primary_key=True, doc="SHA-256 of the cookie"),
    Column("user", Text, nullable=False, index=True),
    Column("created_at", DateTime(timezone=True), nullable=False),
    Column("expires_at", DateTime(timezone=True), nullable=False),
)

invitations = Table(
    "invitations",
    metadata,
    Column("hash", LargeBinary, primary_key=True, doc="SHA-256 of the code"),
    Column("user", Text, nullable=False, index=True),
    Column("expires_at", DateTime(timezone=True), nullable=False),
)

device_logins = Table(
    "device_logins",
    metadata,
    Column("hash", LargeBinary, primary_key=True, doc="SHA-256 of the device's code"),
    Column("user_code", Text, nullable=False, unique=True),
    Column("device_name", Text, nullable=False),
    Column("expires_at", DateTime(timezone=True), nullable=False),
    Column("polled_at", DateTime(timezone=True), nullable=True),
    Column("denied", Boolean, nullable=False),
    Column("user", Text, nullable=True, doc="who let it in"),
)

audit = Table(
    "audit",
    metadata,
    Column("sequence", BigInteger, primary_key=True),
    Column("workspace", Text, nullable=False),
    Column("at", DateTime(timezone=True), nullable=False),
    Column("actor", Text, nullable=False),
    Column("act", Text, nullable=False),
    Column("target", Text, nullable=False),
    Column("details", JSONB, nullable=False),
    Column("request_id", Uuid, nullable=False),
)
Index("ix_audit_workspace_sequence", audit.c.workspace, audit.c.sequence)

billing_limits = Table(
    "billing_limits",
    metadata,
    Column("workspace", Text, primary_key=True),
    Column("usd", Numeric(), doc="of a calendar month; null: no limit"),
    Column("sandbox_hours", Numeric(), doc="of a calendar month; null: no limit"),
    Column("updated_at", DateTime(timezone=True), nullable=False),
    Column("updated_by", Text, nullable=False),
)

billing_reservations = Table(
    "billing_reservations",
    metadata,
    Column("id", Uuid, primary_key=True, doc="of the request that it was made for"),
    Column("workspace", Text, nullable=False),
    Column("run", Uuid, nullable=False),
    Column("opening", Integer, nullable=False, doc="1: the submission; more: a retry"),
    Column("usd", Numeric(), nullable=False),
    Column("seconds", Numeric(), nullable=False),
    Column("usd_before", Numeric(), nullable=False, doc="what the run had spent by then"),
    Column("seconds_before", Numeric(), nullable=False),
    Column("reserved_at", DateTime(timezone=True), nullable=False),
    Index("ix_billing_reservations_workspace", "workspace"),
)

spending_runs = Table(
    "spending_runs",
    metadata,
    Column("run", Uuid, primary_key=True),
    Column("workspace", Text, nullable=False),
    Column("openings", Integer, nullable=False, doc="how often it was submitted and reopened"),
    Column("ended", Boolean, nullable=False),
    Column("usd", Numeric(), nullable=False),
    Column("seconds", Numeric(), nullable=False),
)

spending_months = Table(
    "spending_months",
    metadata,
    Column("workspace", Text, primary_key=True),
    Column("month", Text, primary_key=True, doc="such as 2026-12, in UTC"),
    Column("usd", Numeric(), nullable=False),
    Column("seconds", Numeric(), nullable=False),
    Column("tries_without_cost", BigInteger, nullable=False),
)

spending_tries = Table(
    "spending_tries",
    metadata,
    Column("slot", Uuid, primary_key=True),
    Column("try_number", Integer, primary_key=True),
    Column("delivery", Integer, primary_key=True),
    Column("by_judge", Boolean, primary_key=True, doc="what the judge spent on it"),
)

sql_sessions = Table(
    "sql_sessions",
    metadata,
    Column("pid", Integer, primary_key=True, autoincrement=False, doc="of the server's process"),
    Column("workspace", Text, nullable=False, doc="whose rows the session sees"),
    Column("since", DateTime(timezone=True), nullable=False),
)

idempotency_keys = Table(
    "idempotency_keys",
    metadata,
    Column("workspace", Text, primary_key=True),
    Column("caller", Text, primary_key=True),
    Column("key", Text, primary_key=True),
    Column("id", Uuid, nullable=False, doc="from which every id that the work makes follows"),
    Column("fingerprint", LargeBinary, nullable=False, doc="of method, address and body, keyed"),
    Column("permissions", Text, nullable=False, doc="what the caller might do when it was begun"),
    Column("begun_at", DateTime(timezone=True), nullable=False),
    Column("held_until", DateTime(timezone=True), nullable=False, doc="while a process works"),
    Column("status", Integer, doc="of the answer; empty while there is none"),
    Column("media_type", Text),
    Column("body", LargeBinary, doc="empty where the answer is not kept"),
)
Index("ix_idempotency_keys_begun_at", idempotency_keys.c.begun_at)
