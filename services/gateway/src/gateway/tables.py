"""The gateway's own tables: names of runs, secrets, encrypted, and sessions that query."""

from sqlalchemy import Column, DateTime, Integer, LargeBinary, Table, Text, Uuid

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
    Column("wrapped_key", LargeBinary, nullable=False, doc="the record's own key, encrypted"),
    Column("sealed", LargeBinary, nullable=False),
    Column("created_at", DateTime(timezone=True), nullable=False),
    Column("updated_at", DateTime(timezone=True), nullable=False),
    Column("updated_by", Text, nullable=False),
)

sql_sessions = Table(
    "sql_sessions",
    metadata,
    Column("pid", Integer, primary_key=True, autoincrement=False, doc="of the server's process"),
    Column("workspace", Text, nullable=False, doc="whose rows the session sees"),
    Column("since", DateTime(timezone=True), nullable=False),
)
