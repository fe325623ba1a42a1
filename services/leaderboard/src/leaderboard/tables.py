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
    Column("imported", Boolean, nullable=False),
    Column("pass_threshold", Double, nullable=False),
    Column("judge_model", Text, doc="null where no model judges"),
    Column("submitted", BigInteger, nullable=False, doc="the sequence of its first event"),
    Column("deleted", BigInteger, doc="the sequence of the event that deleted it"),
    Index("ix_runs_benchmark", "workspace", "benchmark"),
)

endings = Table(
    "endings",
    metadata,
    Column("run", Uuid, primary_key=True),
    Column("ended", BigInteger, primary_key=True, doc="the sequence of the event that ended it"),
    Column("until", BigInteger, doc="the sequence of the event that reopened it"),
    Column("status", Text, nullable=False),
)

scores = Table(
    "scores",
    metadata,
    Column("run", Uuid, primary_key=True),
    Column("agent", Integer, primary_key=True),
    Column("ended", BigInteger, primary_key=True, doc="of the ending that they belong to"),
    Column("results", Integer, nullable=False),
    Column("environments", JSONB, nullable=False),
    Column("tasks", JSONB, nullable=False, doc="names; the columns below have one value for each"),
    Column("attempts", JSONB, nullable=False),
    Column("passes", JSONB, nullable=False),
    Column("seconds", JSONB(none_as_null=True), doc="sums, null where not every try was timed"),
    Column("cost", JSONB(none_as_null=True), doc="USD, null where it is not reported"),
    Column("tokens", JSONB(none_as_null=True), doc="null where they are not reported"),
)

standings = Table(
    "standings",
    metadata,
    Column("workspace", Text, primary_key=True),
    Column("benchmark", Uuid, primary_key=True),
    Column("metric", Text, primary_key=True),
    Column("run", Uuid, primary_key=True),
    Column("agent", Integer, primary_key=True),
    Column("place", Integer, nullable=False, doc="from 0, best first"),
    Column("standing", JSONB, nullable=False, doc="a Standing of the HTTP schemas"),
)

not_ranked = Table(
    "not_ranked",
    metadata,
    Column("workspace", Text, primary_key=True),
    Column("benchmark", Uuid, primary_key=True),
    Column("run", Uuid, primary_key=True),
    Column("agent", Integer, primary_key=True),
    Column("place", Integer, nullable=False, doc="counts from 0 down the list"),
    Column("entry", JSONB, nullable=False, doc="a NotRanked of the HTTP schemas"),
)
