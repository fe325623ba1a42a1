"""The tables of grader: every try with its verdict, the one that is shown of each slot, and the
metrics of each agent of a run.

`judged_runs` and `judgements` are the judge's own notes on what it has to do; they are no
projections, and no rebuild touches them.
"""

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    DateTime,
    Double,
    Index,
    Integer,
    LargeBinary,
    Table,
    Text,
    Uuid,
    text,
)
from sqlalchemy.dialects.postgresql import JSONB

from assay_kernel.tables import kernel_tables, service_metadata

SCHEMA = "grader"

metadata = service_metadata(SCHEMA)
kernel = kernel_tables(metadata)

runs = Table(
    "runs",
    metadata,
    Column("id", Uuid, primary_key=True),
    Column("workspace", Text, nullable=False),
    Column("agents", Integer, nullable=False),
    Column("tasks", Integer, nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("pass_threshold", Double, nullable=False),
    Column("reward_key", Text),
    Column("ended", Text, nullable=True, doc="how it ended, or `deleted`; null while it goes on"),
    Column("categories", JSONB, nullable=False, doc="the category of each task that has one"),
)

tries = Table(
    "tries",
    metadata,
    Column("slot", Uuid, primary_key=True),
    Column("try_number", Integer, primary_key=True),
    Column("delivery", Integer, primary_key=True),
    Column("run", Uuid, nullable=False),
    Column("agent", Integer, nullable=False),
    Column("task", Text, nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("counted", Boolean, nullable=False, doc="the slot's verdict; at most one try of a slot"),
    Column("outcome", Text, doc="null until it is graded"),
    Column("reward", Double),
    Column("reward_rule", Text),
    Column("cause", Text),
    Column("reason", Text),
    Column("rewards", JSONB(none_as_null=True)),
    Column("exception", JSONB(none_as_null=True)),
    Column("judge", JSONB(none_as_null=True), doc="a JudgeRecord"),
    Column("ingested_at", BigInteger, doc="the sequence of its result-ingested"),
    Column("graded_at", BigInteger, doc="the sequence of its result-graded"),
    Column("runner", Text, doc="null, as all below, until the result itself is there"),
    Column("environment", Text),
    Column("harness_version", Text),
    Column("started_at", DateTime(timezone=True)),
    Column("finished_at", DateTime(timezone=True)),
    Column("seconds", Double, doc="null where nobody timed it"),
    Column("durations", JSONB(none_as_null=True)),
    Column("input_tokens", BigInteger),
    Column("cached_tokens", BigInteger),
    Column("output_tokens", BigInteger),
    Column("total_tokens", BigInteger),
    Column("cost_usd", Double),
    Column("artifacts", JSONB(none_as_null=True), doc="sha256, files and bytes of the manifest"),
    Index("ix_tries_run", "run", "agent", "task", "attempt"),
)

_PLACE = ("agent", "task", "attempt")
"""What tells the slots of a run apart, in the order in which they are listed."""

results = Table(
    "results",
    metadata,
    Column("slot", Uuid, primary_key=True),
    Column("run", Uuid, nullable=False),
    Column("agent", Integer, nullable=False),
    Column("task", Text, nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("try_number", Integer, nullable=False, doc="of the try that counts, or the latest"),
    Column("delivery", Integer, nullable=False, doc="of the same try, as all below"),
    Column("outcome", Text),
    Column("cause", Text),
    Column("reason", Text),
    Column("category", Text, doc="of the task"),
    Column("reward", Double),
    Column("seconds", Double),
    Column("cost_usd", Double),
    Column("tokens", BigInteger, doc="input and output together"),
    Index("ix_results_agent", "run", *_PLACE),
    Index("ix_results_task", "run", "task", "agent", "attempt"),
    Index("ix_results_category", "run", "category", *_PLACE),
    *(
        Index(f"ix_results_{column}", "run", column, *_PLACE)
        for column in ("outcome", "reward", "seconds", "cost_usd", "tokens")
    ),
    Index("ix_results_attempt", "run", "attempt", "agent", "task"),
    Index(
        "ix_results_problems",
        "run",
        *_PLACE,
        postgresql_where=text("reason IS NOT NULL AND outcome <> 'passed'"),
    ),
)
"""One row for each slot that has a try: what a page of a run's results is picked from, in any order
and in constant time. Each index is an order in which they can be listed."""

agent_metrics = Table(
    "agent_metrics",
    metadata,
    Column("run", Uuid, primary_key=True),
    Column("agent", Integer, primary_key=True),
    Column("expected", Integer, nullable=False),
    Column("slots", Integer, nullable=False, doc="how many have a try"),
    Column("sequence", BigInteger, nullable=False, doc="of the last event that is in the measures"),
    Column("pass_at_1", Double, doc="null without a result"),
    Column("measures", JSONB, nullable=False, doc="an AgentMeasures of the HTTP schemas"),
)

judged_runs = Table(
    "judged_runs",
    metadata,
    Column("id", Uuid, primary_key=True),
    Column("submitted", LargeBinary, nullable=False, doc="the submitted event, as stored"),
    Column("stop_requested", Boolean, nullable=False),
)

judgements = Table(
    "judgements",
    metadata,
    Column("slot", Uuid, primary_key=True),
    Column("try_number", Integer, primary_key=True),
    Column("delivery", Integer, primary_key=True),
    Column("run", Uuid, nullable=False),
    Column("sequence", BigInteger, nullable=False, doc="of the result"),
    Column("result", LargeBinary, nullable=False, doc="the result-ingested event, as stored"),
    Column("claims", Integer, nullable=False, doc="how often it was claimed"),
    Column("claim", Uuid, doc="the worker that judges it"),
    Column("claimed_until", DateTime(timezone=True), doc="when anybody may claim it again"),
    Column("not_before", DateTime(timezone=True), doc="when it may be claimed again"),
    Index("ix_judgements_sequence", "sequence"),
)
