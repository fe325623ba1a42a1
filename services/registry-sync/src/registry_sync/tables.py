"""The tables of registry-sync: benchmarks and their pinned task lists."""

from sqlalchemy import BigInteger, Boolean, Column, DateTime, Index, Integer, Table, Text, Uuid
from sqlalchemy.dialects.postgresql import JSONB

from assay_kernel.tables import kernel_tables, service_metadata

SCHEMA = "registry_sync"

metadata = service_metadata(SCHEMA)
kernel = kernel_tables(metadata)

benchmarks = Table(
    "benchmarks",
    metadata,
    Column("id", Uuid, primary_key=True),
    Column("workspace", Text, nullable=False, doc="its owner; `managed` for the catalogue"),
    Column("name", Text, nullable=False),
    Column("description", Text, nullable=False),
    Column("source", JSONB, nullable=False),
    Column("source_type", Text, nullable=False),
    Column("added_at", DateTime(timezone=True), nullable=False),
    Column("added_by", Text, nullable=False),
    Column("removed", Boolean, nullable=False),
    Column("sync_status", Text, nullable=False),
    Column("sync_error", Text),
    Column("syncing", Uuid, doc="the synchronisation under way, or the last one"),
    Column("syncing_task_count", Integer),
    Column("synced_task_count", Integer, nullable=False),
    Column("sync", Uuid, doc="the synchronisation that is pinned; null before the first"),
    Column("version", Text),
    Column("digest", Text),
    Column("key", Text),
    Column("task_count", Integer),
    Column("source_url", Text),
    Column("rules", JSONB, nullable=False),
    Column("task_sets", JSONB, nullable=False),
    Column("sequence", BigInteger, nullable=False, doc="of the benchmark's last event"),
    Index("ix_benchmarks_workspace", "workspace"),
)

tasks = Table(
    "tasks",
    metadata,
    Column("sync", Uuid, primary_key=True),
    Column("position", Integer, primary_key=True),
    Column("benchmark", Uuid, nullable=False),
    Column("name", Text, nullable=False),
    Column("category", Text),
    Column("difficulty", Text),
    Column("location", JSONB(none_as_null=True)),
    Column("digest", Text),
    Column("origin", Text),
    Column("unavailable", Text),
)
