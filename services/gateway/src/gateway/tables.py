"""The gateway's own tables: names that runs have taken, secrets, encrypted, and billing.

`spending_runs`, `spending_months` and `spending_tries` are a projection and can be rebuilt. Money
and time are `Numeric`, whose sums come out the same in whatever order they are made.
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
    Uuid,
)

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
