"""The read models of the other services, as far as the gateway shows them.

Their tables belong to those services; here stand only the names of the columns that are read, so
that no service has to import another.
"""

from sqlalchemy import Boolean, Double, Integer, Numeric, TableClause, Text, Uuid, column, table
from sqlalchemy.dialects.postgresql import JSONB, TIMESTAMP

_MOMENT = TIMESTAMP(timezone=True)

benchmarks = table(
    "benchmarks",
    *(column(name, Uuid) for name in ("id", "sync")),
    *(column(name, Text) for name in ("workspace", "name", "description", "source_type")),
    *(column(name, Text) for name in ("added_by", "sync_status", "sync_error", "version")),
    *(column(name, Text) for name in ("digest", "key", "source_url")),
    *(column(name, JSONB) for name in ("source", "rules", "task_sets")),
    *(column(name, Integer) for name in ("syncing_task_count", "synced_task_count", "task_count")),
    column("added_at", _MOMENT),
    column("removed", Boolean),
    schema="registry_sync",
)

tasks = table(
    "tasks",
    column("sync", Uuid),
    column("position", Integer),
    *(column(name, Text) for name in ("name", "category", "difficulty", "unavailable")),
    schema="registry_sync",
)

runs = table(
    "runs",
    *(column(name, Uuid) for name in ("id", "benchmark", "correlation_id")),
    *(column(name, Text) for name in ("workspace", "name", "status", "reason", "stop_requested")),
    *(column(name, Text) for name in ("benchmark_name", "submitted_by")),
    column("submitted", JSONB),
    *(column(name, _MOMENT) for name in ("submitted_at", "started_at", "ended_at")),
    column("last_started_at", _MOMENT),
    column("spent_usd", Numeric),
    column("spent_tokens", Integer),
    *(column(name, Integer) for name in ("expected_results", "passed", "failed", "errored")),
    *(column(name, Integer) for name in ("cancelled", "reopened")),
    schema="run_scheduler",
)

pauses = table(
    "pauses",
    column("run", Uuid),
    column("agent", Integer),
    column("reason", Text),
    column("paused_by", Text),
    column("since", _MOMENT),
    column("until", _MOMENT),
    schema="run_scheduler",
)

slots = table(
    "slots",
    column("run", Uuid),
    column("agent", Integer),
    column("reopened", Boolean),
    schema="run_scheduler",
)

tries = table(
    "tries",
    *(column(name, Uuid) for name in ("slot", "run")),
    *(column(name, Integer) for name in ("try_number", "delivery", "agent", "attempt")),
    *(column(name, Text) for name in ("task", "outcome", "cause", "reason", "runner")),
    *(column(name, Text) for name in ("environment", "reward_rule", "harness_version")),
    *(column(name, Double) for name in ("reward", "seconds", "cost_usd")),
    *(column(name, Integer) for name in ("input_tokens", "cached_tokens", "output_tokens")),
    *(column(name, Integer) for name in ("total_tokens", "ingested_at", "graded_at")),
    *(column(name, JSONB) for name in ("rewards", "durations", "artifacts", "exception", "judge")),
    *(column(name, _MOMENT) for name in ("started_at", "finished_at")),
    column("counted", Boolean),
    schema="grader",
)

results = table(
    "results",
    *(column(name, Uuid) for name in ("slot", "run")),
    *(column(name, Integer) for name in ("agent", "attempt", "try_number", "delivery", "tokens")),
    *(column(name, Text) for name in ("task", "category", "outcome", "cause", "reason")),
    *(column(name, Double) for name in ("reward", "seconds", "cost_usd")),
    schema="grader",
)

agent_metrics = table(
    "agent_metrics",
    column("run", Uuid),
    *(column(name, Integer) for name in ("agent", "expected", "slots", "sequence")),
    column("pass_at_1", Double),
    column("measures", JSONB),
    schema="grader",
)

standings = table(
    "standings",
    column("workspace", Text),
    column("benchmark", Uuid),
    column("metric", Text),
    column("run", Uuid),
    column("agent", Integer),
    column("place", Integer),
    column("standing", JSONB),
    schema="leaderboard",
)

not_ranked = table(
    "not_ranked",
    column("workspace", Text),
    column("benchmark", Uuid),
    column("run", Uuid),
    column("agent", Integer),
    column("place", Integer),
    column("entry", JSONB),
    schema="leaderboard",
)


def checkpoints(schema: str) -> TableClause:
    """The checkpoint table of another service."""
    return table("checkpoints", column("projection", Text), column("sequence"), schema=schema)
