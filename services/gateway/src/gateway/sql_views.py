"""The views that people query with SQL: what each shows, and how it is kept to one workspace.

A view is fed by a function of the same name with `_rows`, which runs as `assay_reader` and gives
the rows of one workspace and no other, before anything of a query can touch them. Which workspace
is in a table that only the gateway writes, under the number of the session that asks
(`sql_sessions`): no setting that a query might change decides it.

The functions name the other services' tables and do not depend on them, so that a rebuild, which
exchanges whole tables, goes on under them. The views are made anew when the gateway starts and they
are not as they stand here.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from assay_contracts.identifiers import MANAGED_WORKSPACE
from assay_kernel.database import READER_ROLE, SQL_ROLE

SCHEMA = "assay_sql"
"""Where the views are; it holds nothing else that a query may use."""

_LOCK = "assay_sql views"
_WORKSPACE = "(SELECT s.workspace FROM gateway.sql_sessions s WHERE s.pid = pg_backend_pid())"


@dataclass(frozen=True)
class Column:
    """A column: its name, its type in PostgreSQL's words, what it tells, and where that stands."""

    name: str
    type: str
    doc: str
    source: str


@dataclass(frozen=True)
class View:
    """A view: its name, what one row is, its columns, and the tables that they come from."""

    name: str
    doc: str
    columns: Sequence[Column]
    tables: str


_BENCHMARKS = f"""
    registry_sync.benchmarks b
    WHERE b.workspace IN ({_WORKSPACE}, '{MANAGED_WORKSPACE}') AND NOT b.removed
"""
_TASKS = f"""
    registry_sync.tasks t JOIN registry_sync.benchmarks b ON b.sync = t.sync
    WHERE b.workspace IN ({_WORKSPACE}, '{MANAGED_WORKSPACE}') AND NOT b.removed
"""
_RUNS = f"""
    run_scheduler.runs r
    WHERE r.workspace = {_WORKSPACE}
"""
_AGENTS = f"""
    grader.agent_metrics m
    JOIN grader.runs g ON g.id = m.run
    LEFT JOIN leaderboard.runs l ON l.id = m.run
    WHERE g.workspace = {_WORKSPACE}
"""
_TRIES = f"""
    grader.tries t JOIN grader.runs g ON g.id = t.run
    WHERE g.workspace = {_WORKSPACE}
"""
_STANDINGS = f"""
    leaderboard.standings s
    WHERE s.workspace = {_WORKSPACE}
"""


def _rate(of: str, name: str, path: str, what: str) -> Sequence[Column]:
    """A value with its interval, out of the measures that a read model keeps as JSON."""
    return [
        Column(name, "double precision", what, f"({of} #>> '{{{path},value}}')::float8"),
        Column(
            f"{name}_low",
            "double precision",
            "lower end of its 95% interval",
            f"({of} #>> '{{{path},ci_low}}')::float8",
        ),
        Column(
            f"{name}_high",
            "double precision",
            "upper end of its 95% interval",
            f"({of} #>> '{{{path},ci_high}}')::float8",
        ),
    ]


_OF_A_TRY = (
    Column("run_id", "uuid", "the run", "t.run"),
    Column("agent", "integer", "place of the agent in the run, from 0", "t.agent"),
    Column("task", "text", "name of the task", "t.task"),
    Column("attempt", "integer", "attempt of the agent at the task, from 1", "t.attempt"),
    Column("slot_id", "uuid", "the cell of run, agent, task and attempt", "t.slot"),
    Column("try_number", "integer", "execution of the cell, from 1", "t.try_number"),
    Column(
        "outcome", "text", "passed, failed, errored or cancelled; null until graded", "t.outcome"
    ),
    Column(
        "reward", "double precision", "what the verifier gave; null without a score", "t.reward"
    ),
    Column("cause", "text", "why it did not pass, by class", "t.cause"),
    Column("reason", "text", "why, in words", "t.reason"),
    Column("runner", "text", "the runner that ran it", "t.runner"),
    Column("environment", "text", "kind of sandbox", "t.environment"),
    Column("harness_version", "text", "as the harness told it", "t.harness_version"),
    Column("started_at", "timestamp with time zone", "when it began", "t.started_at"),
    Column("finished_at", "timestamp with time zone", "when it ended", "t.finished_at"),
    Column(
        "seconds", "double precision", "how long it took; null where nobody timed it", "t.seconds"
    ),
    Column("input_tokens", "bigint", "null where it is not reported, as below", "t.input_tokens"),
    Column("cached_tokens", "bigint", "of the input tokens, those from a cache", "t.cached_tokens"),
    Column("output_tokens", "bigint", "tokens that the model wrote", "t.output_tokens"),
    Column("total_tokens", "bigint", "input and output together", "t.total_tokens"),
    Column("cost_usd", "double precision", "what the model cost", "t.cost_usd"),
)

VIEWS: Sequence[View] = (
    View(
        "benchmarks",
        "A benchmark that the workspace sees: its own, and those of the catalogue.",
        (
            Column("id", "uuid", "the benchmark", "b.id"),
            Column("workspace", "text", "its owner; `managed` for the catalogue", "b.workspace"),
            Column("name", "text", "its name, unique in its workspace", "b.name"),
            Column("description", "text", "what it is", "b.description"),
            Column("source_type", "text", "kind of source that it was read from", "b.source_type"),
            Column("added_at", "timestamp with time zone", "when it was added", "b.added_at"),
            Column("added_by", "text", "who added it", "b.added_by"),
            Column("sync_status", "text", "pending, syncing, ready or failed", "b.sync_status"),
            Column("sync_error", "text", "why the last reading failed", "b.sync_error"),
            Column("version", "text", "version that is pinned; null before the first", "b.version"),
            Column("digest", "text", "SHA-256 over its pinned tasks", "b.digest"),
            Column("task_count", "integer", "how many tasks are pinned", "b.task_count"),
        ),
        _BENCHMARKS,
    ),
    View(
        "tasks",
        "A task of the version of a benchmark that is pinned now.",
        (
            Column("benchmark_id", "uuid", "the benchmark", "b.id"),
            Column("benchmark", "text", "its name", "b.name"),
            Column("position", "integer", "place in the task list, from 0", 't."position"'),
            Column("name", "text", "name of the task", "t.name"),
            Column("category", "text", "null where it has none", "t.category"),
            Column("difficulty", "text", "null where it has none", "t.difficulty"),
            Column("digest", "text", "SHA-256 of its content", "t.digest"),
            Column(
                "unavailable", "text", "why it cannot be run; null where it can", "t.unavailable"
            ),
        ),
        _TASKS,
    ),
    View(
        "runs",
        "A run.",
        (
            Column("id", "uuid", "the run", "r.id"),
            Column("name", "text", "its name", "r.name"),
            Column(
                "status",
                "text",
                "pending, queued, running, finished, stopped or failed",
                "r.status",
            ),
            Column("reason", "text", "why it stopped or failed", "r.reason"),
            Column("benchmark_id", "uuid", "what it runs", "r.benchmark"),
            Column("benchmark", "text", "its name at submission", "r.benchmark_name"),
            Column("submitted_at", "timestamp with time zone", "when", "r.submitted_at"),
            Column("submitted_by", "text", "who", "r.submitted_by"),
            Column("started_at", "timestamp with time zone", "when work began", "r.started_at"),
            Column("ended_at", "timestamp with time zone", "null while it goes on", "r.ended_at"),
            Column(
                "expected_results", "integer", "agents × tasks × attempts", "r.expected_results"
            ),
            Column("passed", "integer", "results that passed", "r.passed"),
            Column("failed", "integer", "results that failed", "r.failed"),
            Column("errored", "integer", "results without a score", "r.errored"),
            Column("cancelled", "integer", "results that a stop cut off", "r.cancelled"),
            Column("spent_usd", "numeric", "reported by every try, retries too", "r.spent_usd"),
            Column(
                "spent_tokens", "bigint", "reported by every try, retries too", "r.spent_tokens"
            ),
            Column(
                "imported",
                "boolean",
                "whether its results were made elsewhere",
                "jsonb_typeof(r.submitted -> 'imported') = 'object'",
            ),
        ),
        _RUNS,
    ),
    View(
        "agents",
        "An agent of a run, with what its results are worth so far.",
        (
            Column("run_id", "uuid", "the run", "m.run"),
            Column("agent", "integer", "its place in the run, from 0", "m.agent"),
            Column("harness", "text", "its harness", "l.agents -> m.agent ->> 'harness'"),
            Column("model", "text", "its model; `none` without", "l.agents -> m.agent ->> 'model'"),
            Column("expected_results", "integer", "tasks × attempts", "m.expected"),
            *(
                Column(
                    name, "integer", f"results that {what}", f"(m.measures ->> '{name}')::integer"
                )
                for name, what in (
                    ("passed", "passed"),
                    ("failed", "failed"),
                    ("errored", "have no score"),
                    ("cancelled", "a stop cut off"),
                )
            ),
            *_rate("m.measures", "pass_at_1", "pass_at_1", "share of tasks solved, by attempt"),
            *_rate("m.measures", "cost_per_task", "cost_per_task", "mean cost in USD"),
            *_rate("m.measures", "seconds_per_task", "seconds_per_task", "mean time in seconds"),
            *_rate("m.measures", "tokens_per_task", "tokens_per_task", "mean tokens"),
        ),
        _AGENTS,
    ),
    View(
        "results",
        "A result that counts: the verdict that stands for a cell of run, agent, task and attempt.",
        _OF_A_TRY,
        f"{_TRIES} AND t.counted",
    ),
    View(
        "tries",
        "Every execution of a cell, retries and those that do not count included.",
        (
            *_OF_A_TRY,
            Column("delivery", "integer", "hand-out of the try's work, from 1", "t.delivery"),
            Column("counted", "boolean", "whether its verdict is the cell's result", "t.counted"),
        ),
        _TRIES,
    ),
    View(
        "standings",
        "An entrant of a leaderboard by one metric, as of now.",
        (
            Column("benchmark_id", "uuid", "the benchmark", "s.benchmark"),
            Column("metric", "text", "pass@1, pass@k, pass^k, cost, time or tokens", "s.metric"),
            Column("place", "integer", "from 0, best first", "s.place"),
            Column(
                "rank",
                "integer",
                "those that cannot be told apart share one",
                "(s.standing ->> 'rank')::integer",
            ),
            Column(
                "tied",
                "boolean",
                "shares rank 1 with the leader",
                "(s.standing ->> 'tied')::boolean",
            ),
            Column("run_id", "uuid", "the run that stands for it", "s.run"),
            Column("run", "text", "its name", "s.standing ->> 'run_name'"),
            Column("agent", "integer", "the agent's place in it", "s.agent"),
            Column("harness", "text", "its harness", "s.standing ->> 'harness'"),
            Column("model", "text", "its model; `none` without", "s.standing ->> 'model'"),
            Column("task_set", "text", "which tasks it ran", "s.standing ->> 'task_set'"),
            Column("version", "text", "of the benchmark", "s.standing ->> 'benchmark_version'"),
            Column(
                "imported",
                "boolean",
                "whether its results were made elsewhere",
                "(s.standing ->> 'imported')::boolean",
            ),
            *_rate("s.standing", "pass_at_1", "pass_at_1", "share of tasks solved, by attempt"),
            *_rate("s.standing", "cost_per_task", "cost_per_task", "mean cost in USD"),
            *_rate("s.standing", "seconds_per_task", "seconds_per_task", "mean time in seconds"),
            *_rate("s.standing", "tokens_per_task", "tokens_per_task", "mean tokens"),
        ),
        _STANDINGS,
    ),
)


async def make_views(engine: AsyncEngine) -> None:
    """Make the views, unless they are as they stand here; several replicas may do so at once.

    The tables need not be there yet. Whoever owns `engine` may make schemas and become
    `assay_reader`.
    """
    statements = [_function(view) for view in VIEWS]
    version = hashlib.sha256("".join(statements).encode()).hexdigest()
    async with engine.begin() as connection:
        await connection.execute(
            text("SELECT pg_advisory_xact_lock(hashtext(:lock))"), {"lock": _LOCK}
        )
        if await _version_there(connection) == version:
            return
        await _run(connection, f"DROP SCHEMA IF EXISTS {SCHEMA} CASCADE", f"CREATE SCHEMA {SCHEMA}")
        await _run(
            connection,
            f"GRANT USAGE, CREATE ON SCHEMA {SCHEMA} TO {READER_ROLE}",
            f"SET LOCAL ROLE {READER_ROLE}",
            "SET LOCAL check_function_bodies = off",  # other services may yet have to migrate
            *statements,
            *(f"REVOKE ALL ON FUNCTION {SCHEMA}.{one.name}_rows() FROM PUBLIC" for one in VIEWS),
            *(
                f"GRANT EXECUTE ON FUNCTION {SCHEMA}.{one.name}_rows() TO {SQL_ROLE}"
                for one in VIEWS
            ),
            "RESET ROLE",
            f"REVOKE CREATE ON SCHEMA {SCHEMA} FROM {READER_ROLE}",
            *(
                f"CREATE VIEW {SCHEMA}.{one.name} WITH (security_barrier)"  # noqa: S608  ours
                f" AS SELECT * FROM {SCHEMA}.{one.name}_rows()"
                for one in VIEWS
            ),
            f"GRANT USAGE ON SCHEMA {SCHEMA} TO {SQL_ROLE}",
            *(f"GRANT SELECT ON {SCHEMA}.{one.name} TO {SQL_ROLE}" for one in VIEWS),
            f"COMMENT ON SCHEMA {SCHEMA} IS '{version}'",
        )


async def _version_there(connection: AsyncConnection) -> str | None:
    found: str | None = await connection.scalar(
        text("SELECT obj_description(to_regnamespace(:schema)::oid, 'pg_namespace')"),
        {"schema": SCHEMA},
    )
    return found


async def _run(connection: AsyncConnection, *statements: str) -> None:
    for statement in statements:
        await connection.exec_driver_sql(statement)


def _function(view: View) -> str:
    columns = ", ".join(f'"{one.name}" {one.type}' for one in view.columns)
    sources = ", ".join(one.source for one in view.columns)
    return (
        f"CREATE FUNCTION {SCHEMA}.{view.name}_rows() RETURNS TABLE ({columns})"  # noqa: S608  ours
        " LANGUAGE sql STABLE SECURITY DEFINER PARALLEL RESTRICTED ROWS 10000"
        f" SET search_path = pg_catalog AS $rows$ SELECT {sources} FROM {view.tables} $rows$"
    )
