"""The gateway's own tables: names that runs have taken, and secrets, encrypted."""

from sqlalchemy import Column, DateTime, LargeBinary, Table, Text, Uuid

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
