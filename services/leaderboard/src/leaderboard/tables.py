"""The tables of leaderboard: what runs scored, who ranks where, and who does not and why."""

from sqlalchemy import BigInteger, Boolean, Column, Double, Index, Integer, Table, Text, Uuid
from sqlalchemy.dialects.postgresql import JSONB

from assay_kernel.tables import kernel_tables, service_metadata

SCHEMA = "leaderboard"

metadata = service_metadata(SCHEMA)
kernel = kernel_tables(metadata)

runs = Table(
    "runs",
    metadata,
    Column("id", Uuid, primary_key=True),
    Column("workspace", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("benchmark", Uuid, nullable=False),
    Column("version", Text, nullable=False),
    Column("digest", Text, nullable=False),
    Column("task_set", Text, nullable=False),
    Column("tasks", Integer, nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("agents", JSONB, nullable=False, doc="a list of harness and model"),
    Column("status", Text, nullable=False),
    Column("ended", BigInteger, doc="the sequence of the event that ended it"),
    Index("ix_runs_benchmark", "workspace", "benchmark"),
)

results = Table(
    "results",
    metadata,
    Column("slot", Uuid, primary_key=True),
    Column("run", Uuid, nullable=False),
    Column("agent", Integer, nullable=False),
    Column("task", Text, nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("outcome", Text, nullable=False, doc="of the verdict that counts"),
    Column("try_number", Integer, nullable=False),
    Column("delivery", Integer, nullable=False),
    Column("seconds", Double),
    Column("cost_usd", Double),
    Column("tokens", BigInteger),
    Column("environment", Text),
    Index("ix_results_run", "run", "agent"),
)

ingested = Table(
    "ingested",
    metadata,
    Column("slot", Uuid, primary_key=True),
    Column("try_number", Integer, primary_key=True),
    Column("delivery", Integer, primary_key=True),
    Column("seconds", Double, nullable=False),
    Column("cost_usd", Double),
    Column("tokens", BigInteger),
    Column("environment", Text, nullable=False),
)

standings = Table(
    "standings",
    metadata,
    Column("workspace", Text, primary_key=True),
    Column("benchmark", Uuid, primary_key=True),
    Column("metric", Text, primary_key=True),
    Column("run", Uuid, primary_key=True),
    Column("agent", Integer, primary_key=True),
    Column("rank", Integer),
    Column("tied", Boolean, nullable=False),
    Column("standing", JSONB, nullable=False, doc="a Standing of the HTTP schemas"),
)

not_ranked = Table(
    "not_ranked",
    metadata,
    Column("workspace", Text, primary_key=True),
    Column("benchmark", Uuid, primary_key=True),
    Column("run", Uuid, primary_key=True),
    Column("agent", Integer, primary_key=True),
    Column("entry", JSONB, nullable=False, doc="a NotRanked of the HTTP schemas"),
)
