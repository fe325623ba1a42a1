"""The gateway's own tables: names that runs have taken, secrets, encrypted, and answers
under idempotency keys."""

from sqlalchemy import Column, DateTime, Index, Integer, LargeBinary, Table, Text, Uuid

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
