"""The tables of run-scheduler.

`runs`, `slots`, `pauses`, `streaks`, `spendings`, `versions` and `version_tasks` are projections
and can be rebuilt. `plans` and `dispatches` are the scheduler's own notes on what it has handed
out; they are not derived from events alone and no rebuild touches them. Money is `Numeric`, whose
sums come out the same in whatever order they are made.
"""

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    DateTime,
    Double,
    Index,
    Integer,
    Numeric,
    Table,
    Text,
    Uuid,
)
from sqlalchemy.dialects.postgresql import ARRAY, JSONB

from assay_kernel.tables import kernel_tables, service_metadata

SCHEMA = "run_scheduler"

metadata = service_metadata(SCHEMA)
kernel = kernel_tables(metadata)

versions = Table(
    "versions",
    metadata,
    Column("sync", Uuid, primary_key=True),
    Column("benchmark", Uuid, nullable=False),
    Column("complete", Boolean, nullable=False),
    Column("failed", Text),
)

version_tasks = Table(
    "version_tasks",
    metadata,
    Column("sync", Uuid, primary_key=True),
    Column("position", Integer, primary_key=True),
    Column("name", Text, nullable=False),
    Column("location", JSONB(none_as_null=True)),
    Column("digest", Text),
    Column("unavailable", Text),
)

runs = Table(
    "runs",
    metadata,
    Column("id", Uuid, primary_key=True),
    Column("workspace", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("status", Text, nullable=False),
    Column("reason", Text),
    Column("stop_requested", Text),
    Column("benchmark", Uuid, nullable=False),
    Column("benchmark_name", Text, nullable=False),
    Column("sync", Uuid, nullable=False),
    Column("submitted", JSONB, nullable=False, doc="the data of the submitted event"),
    Column("submitted_event", Uuid, nullable=False),
    Column("correlation_id", Uuid, nullable=False),
    Column("submitted_at", DateTime(timezone=True), nullable=False),
    Column("submitted_by", Text, nullable=False),
    Column("started_at", DateTime(timezone=True)),
    Column("ended_at", DateTime(timezone=True)),
    Column("last_started_at", DateTime(timezone=True), doc="of a reopened run: when it went on"),
    Column("spent_usd", Numeric(), nullable=False, server_default="0"),
    Column("spent_tokens", BigInteger, nullable=False, server_default="0"),
    Column("expected_results", Integer, nullable=False),
    Column("passed", Integer, nullable=False),
    Column("failed", Integer, nullable=False),
    Column("errored", Integer, nullable=False),
    Column("cancelled", Integer, nullable=False),
    Column(
        "reopened", Integer, nullable=False, server_default="0", doc="slots to run again, not yet"
    ),
    Column("sequence", BigInteger, nullable=False, doc="of the run's last event"),
    Index("ix_runs_workspace", "workspace", "submitted_at", "id"),
    Index("ix_runs_status", "status"),
)

slots = Table(
    "slots",
    metadata,
    Column("id", Uuid, primary_key=True),
    Column("run", Uuid, nullable=False),
    Column("agent", Integer, nullable=False),
    Column("task", Text, nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("outcome", Text, doc="of the verdict that counts; null before there is one"),
    Column("last_try", Integer, nullable=False, doc="the highest try announced or begun"),
    Column("graded_try", Integer, nullable=False, doc="the highest try with a verdict; 0: none"),
    Column("retryable", Boolean, nullable=False),
    Column(
        "reopened",
        Boolean,
        nullable=False,
        server_default="false",
        doc="to run again, and not judged since",
    ),
    Column(
        "tries_before",
        Integer,
        nullable=False,
        server_default="0",
        doc="tries that do not count against max_retries: those before it was reopened",
    ),
    Column("reason", Text),
    Column("not_before", DateTime(timezone=True), doc="when the announced try may begin"),
    Column("last_event", Uuid, nullable=False),
    Index("ix_slots_run", "run", "outcome"),
)

WHOLE_RUN = -1
"""In place of an agent, where a pause is of the whole run."""

pauses = Table(
    "pauses",
    metadata,
    Column("run", Uuid, primary_key=True),
    Column("agent", Integer, primary_key=True, doc="-1: the whole run"),
    Column("reason", Text, nullable=False),
    Column("paused_by", Text, nullable=False),
    Column("since", DateTime(timezone=True), nullable=False),
    Column("until", DateTime(timezone=True), doc="when it goes on by itself"),
)

spendings = Table(
    "spendings",
    metadata,
    Column("slot", Uuid, primary_key=True),
    Column("try_number", Integer, primary_key=True),
    Column("delivery", Integer, primary_key=True),
    Column("by_judge", Boolean, primary_key=True, doc="not by the agent"),
    Column("run", Uuid, nullable=False),
    Column("usd", Numeric(), nullable=False),
    Column("tokens", BigInteger, nullable=False),
    Index("ix_spendings_run", "run"),
)

streaks = Table(
    "streaks",
    metadata,
    Column("run", Uuid, primary_key=True),
    Column("agent", Integer, primary_key=True),
    Column("trouble", Text, nullable=False),
    Column("slots", JSONB, nullable=False, doc="ids of the slots that met it in a row"),
    Column("said", Text, nullable=False, doc="what the last of them said"),
    Column("retry_after", Double, doc="seconds to wait, as the provider asks"),
    Column("waits", Integer, nullable=False, doc="pauses for it that ended by themselves"),
)

plans = Table(
    "plans",
    metadata,
    Column("run", Uuid, primary_key=True),
    Column("begun", ARRAY(Integer), nullable=False, doc="cells handed out, of each agent"),
)

dispatches = Table(
    "dispatches",
    metadata,
    Column("slot", Uuid, primary_key=True),
    Column("try_number", Integer, primary_key=True),
    Column("run", Uuid, nullable=False),
    Column("pool", Text, nullable=False, doc="the part of the work queue that it went to"),
    Column("begun", Boolean, nullable=False, doc="a runner has begun it"),
    Index("ix_dispatches_run", "run"),
)
