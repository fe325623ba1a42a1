"""What the gateway reads about runs and their agents."""

from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from sqlalchemy import ARRAY, Integer, RowMapping, any_, func, literal, or_, select
from sqlalchemy.ext.asyncio import AsyncConnection

from assay_contracts.http import (
    AgentMeasures,
    AgentRow,
    PauseEntry,
    RunDetail,
    RunEntry,
    RunLimits,
    Spend,
)
from assay_contracts.identifiers import Slot, parse_positions
from assay_contracts.run_config import Agent, Execution
from assay_contracts.run_events import ResolvedExecution, SubmittedData
from assay_contracts.values import Outcome, RunStatus
from gateway.domain import CUSTOM
from gateway.pace import seconds_left
from gateway.read_models import agent_metrics, checkpoints, pauses, runs, slots, tasks, tries
from gateway.result_queries import problems_of

_MOST_PROBLEMS = 200
WHOLE_RUN = -1
"""In place of an agent, where a pause is of the whole run."""

_WAITING = {RunStatus.PENDING, RunStatus.QUEUED}
NO_MEASURES: dict[str, Any] = AgentMeasures(
    n_tasks=0,
    **dict.fromkeys((outcome.value for outcome in Outcome), 0),
    pass_at_1=None,
    pass_at_k=[],
    pass_hat_k=[],
    cost_per_task=None,
    seconds_per_task=None,
    tokens_per_task=None,
    input_tokens=None,
    output_tokens=None,
    cost_usd=None,
    spent=Spend(tries=0, cost_usd=None, input_tokens=None, output_tokens=None, judge_cost_usd=None),
    causes=[],
    categories=[],
    least_detectable_difference=None,
).model_dump()
"""Of an agent that the grader has not folded anything of yet."""


async def checkpoint(connection: AsyncConnection, schema: str, projection: str) -> int:
    """The stream sequence that another service's read model stands at."""
    marks = checkpoints(schema)
    found = await connection.scalar(
        select(marks.c.sequence).where(marks.c.projection == projection)
    )
    return int(found or 0)


async def find_run(connection: AsyncConnection, workspace: str, ref: str) -> RowMapping | None:
    """A run of the workspace by name or id."""
    by = [runs.c.name == ref]
    with suppress(ValueError):
        by.append(runs.c.id == UUID(ref))
    found = await connection.execute(
        select(runs).where(runs.c.workspace == workspace, or_(*by)).limit(1)
    )
    return found.mappings().first()


async def entries_of(connection: AsyncConnection, rows: Sequence[RowMapping]) -> list[RunEntry]:
    """Runs as a list shows them."""
    ids = [row["id"] for row in rows]
    best, paused = await _best(connection, ids), await _pauses(connection, ids)
    return [
        RunEntry(**_entry_fields(row, best.get(row["id"]), paused.get(row["id"], [])))
        for row in rows
    ]


async def _best(connection: AsyncConnection, ids: Sequence[UUID]) -> dict[UUID, float]:
    found = await connection.execute(
        select(agent_metrics.c.run, func.max(agent_metrics.c.pass_at_1).label("best"))
        .where(agent_metrics.c.run.in_(ids))
        .group_by(agent_metrics.c.run)
    )
    return {row.run: row.best for row in found if row.best is not None}


async def _pauses(connection: AsyncConnection, ids: Sequence[UUID]) -> dict[UUID, list[PauseEntry]]:
    """What is paused of each run that has not ended: a pause of the whole run first."""
    found = await connection.execute(
        select(pauses).where(pauses.c.run.in_(ids)).order_by(pauses.c.run, pauses.c.agent)
    )
    listed: dict[UUID, list[PauseEntry]] = {}
    for row in found.mappings():
        agent = None if row["agent"] == WHOLE_RUN else row["agent"]
        plain = {name: row[name] for name in ("reason", "paused_by", "since", "until")}
        listed.setdefault(row["run"], []).append(PauseEntry(agent=agent, **plain))
    return listed


def _entry_fields(
    row: RowMapping, best: float | None, paused: Sequence[PauseEntry]
) -> dict[str, Any]:
    again = 0 if RunStatus(row["status"]).is_terminal else row["reopened"]
    return {
        "id": row["id"],
        "name": row["name"],
        "status": row["status"],
        "reason": row["reason"] or row["stop_requested"],
        "benchmark_id": row["benchmark"],
        "benchmark_name": row["benchmark_name"],
        "agent_count": len(row["submitted"]["agents"]),
        "expected_results": row["expected_results"],
        "ingested_results": sum(row[outcome.value] for outcome in Outcome) - again,
        "reopened_results": again,
        "pauses": paused,
        "best_pass_at_1": best,
        "submitted_by": row["submitted_by"],
        "submitted_at": row["submitted_at"],
        "started_at": row["started_at"],
        "ended_at": row["ended_at"],
        "imported": row["submitted"].get("imported"),
    }


async def describe_run(connection: AsyncConnection, row: RowMapping) -> RunDetail:
    """A run with its configuration, its agents' metrics and what did not pass."""
    best = await _best(connection, [row["id"]])
    submitted = SubmittedData.model_validate(row["submitted"])
    paused = await _pauses(connection, [row["id"]])
    fields = _entry_fields(row, best.get(row["id"]), paused.get(row["id"], []))
    return RunDetail(
        **fields,
        seconds_left=await seconds_left(connection, row, RunEntry(**fields), datetime.now(UTC)),
        benchmark_version=submitted.benchmark.version,
        benchmark_digest=submitted.benchmark.digest,
        benchmark_key=submitted.benchmark.key,
        selection=submitted.selection,
        environment=submitted.environment,
        limits=_limits(row, submitted.execution),
        config=_config(submitted, await _chosen_tasks(connection, submitted)),
        secret_scopes=submitted.secret_scopes,
        agents=await agent_rows(connection, row),
        problems=await problems_of(connection, row, _MOST_PROBLEMS),
    )


async def agent_rows(connection: AsyncConnection, row: RowMapping) -> list[AgentRow]:
    """The agents of a run with their measures, in the order of its configuration."""
    submitted = SubmittedData.model_validate(row["submitted"])
    found = await connection.execute(select(agent_metrics).where(agent_metrics.c.run == row["id"]))
    measured = {one["agent"]: one for one in found.mappings()}
    again = await _reopened(connection, row)
    status = RunStatus(row["status"])
    return [
        _agent(index, agent, status, submitted, measured.get(index), again.get(index, 0))
        for index, agent in enumerate(submitted.agents)
    ]


def _limits(run: RowMapping, execution: ResolvedExecution) -> RunLimits | None:
    """The limits of a run, and how much is used; None where it has none."""
    usd, tokens = execution.budget_usd, execution.budget_tokens
    if execution.deadline is None and usd is None and tokens is None:
        return None
    start: datetime | None = run["last_started_at"]
    deadline = None
    if execution.deadline is not None and start is not None:
        deadline = start + timedelta(seconds=execution.deadline)
    return RunLimits(
        deadline_at=deadline,
        budget_usd=usd,
        spent_usd=None if usd is None else run["spent_usd"],
        budget_tokens=tokens,
        spent_tokens=None if tokens is None else run["spent_tokens"],
    )


async def _reopened(connection: AsyncConnection, run: RowMapping) -> dict[int, int]:
    """How many slots of each agent are to run again, and have not."""
    if RunStatus(run["status"]).is_terminal or not run["reopened"]:
        return {}
    found = await connection.execute(
        select(slots.c.agent, func.count().label("slots"))
        .where(slots.c.run == run["id"], slots.c.reopened)
        .group_by(slots.c.agent)
    )
    return {row.agent: row.slots for row in found}


async def _chosen_tasks(connection: AsyncConnection, submitted: SubmittedData) -> list[str]:
    """The tasks of a selection of one's own, without those that its categories hold already."""
    selection = submitted.selection
    if selection.positions is None or selection.task_set != CUSTOM:
        return []
    places = literal(parse_positions(selection.positions), ARRAY(Integer))
    found = await connection.scalars(
        select(tasks.c.name)
        .where(
            tasks.c.sync == submitted.benchmark.sync,
            tasks.c.position == any_(places),
            func.coalesce(tasks.c.category, "").not_in(selection.categories),
        )
        .order_by(tasks.c.position)
    )
    return list(found)


def _config(submitted: SubmittedData, task_names: list[str]) -> dict[str, Any]:
    """The configuration with every default filled in; submitting it again asks for the same."""
    selection = submitted.selection
    chosen: dict[str, Any] = {}
    if selection.task_set == CUSTOM:
        chosen = {"categories": list(selection.categories), "task_names": task_names}
    elif selection.positions is not None:
        chosen = {"task_set": selection.task_set}
    return {
        "experiment": {"benchmark": submitted.benchmark.key},
        "tasks": chosen,
        "agents": [agent.model_dump(exclude_none=True) for agent in submitted.agents],
        "execution": submitted.execution.model_dump(
            include=set(Execution.model_fields), exclude_none=True
        ),
        "verifier": {"required": list(submitted.verifier_secrets)},
        "secrets": {"required": list(submitted.run_secrets)},
        "env": dict(submitted.env),
    }


def _agent(
    index: int,
    agent: Agent,
    status: RunStatus,
    submitted: SubmittedData,
    measured: RowMapping | None,
    again: int,
) -> AgentRow:
    expected = submitted.selection.task_count * submitted.execution.attempts_per_task
    measures = NO_MEASURES if measured is None else measured["measures"]
    if again:
        measures = _as_partial(measures)
    ingested = sum(int(measures[outcome.value]) for outcome in Outcome) - again
    is_complete = ingested - int(measures[Outcome.CANCELLED.value]) >= expected
    return AgentRow(
        index=index,
        harness=agent.harness,
        model=agent.model_label,
        status=RunStatus.FINISHED if is_complete and status not in _WAITING else status,
        expected_results=expected,
        ingested_results=ingested,
        **measures,
    )


def _as_partial(measures: Any) -> Any:
    """Measures whose rates may change yet, since slots that they hold as errored run again."""
    match measures:
        case dict():
            marked = {name: _as_partial(value) for name, value in measures.items()}
            return marked | ({"partial": True} if "partial" in marked else {})
        case list():
            return [_as_partial(value) for value in measures]
        case _:
            return measures


async def errored_slots(connection: AsyncConnection, run: UUID) -> list[Slot]:
    """Every slot whose result is errored, by agent, task and attempt."""
    found = await connection.execute(
        select(tries.c.agent, tries.c.task, tries.c.attempt)
        .where(tries.c.run == run, tries.c.counted, tries.c.outcome == Outcome.ERRORED.value)
        .order_by(tries.c.agent, tries.c.task, tries.c.attempt)
    )
    return [Slot(agent=row.agent, task=row.task, attempt=row.attempt) for row in found]


async def tasks_of(connection: AsyncConnection, run: UUID) -> list[str]:
    """The tasks of a run that have a result."""
    found = await connection.scalars(select(tries.c.task).where(tries.c.run == run).distinct())
    return sorted(found)


async def known_slots(connection: AsyncConnection, run: UUID, slots: Sequence[UUID]) -> set[UUID]:
    """Which of the slots have a try with a result."""
    found = await connection.scalars(
        select(tries.c.slot).where(tries.c.run == run, tries.c.slot.in_(slots))
    )
    return set(found)


async def seconds_of(
    connection: AsyncConnection, run: UUID, slots: Sequence[UUID]
) -> dict[tuple[UUID, int, int], float | None]:
    """Seconds that each try of some slots took, by slot, try and delivery."""
    found = await connection.execute(
        select(tries.c.slot, tries.c.try_number, tries.c.delivery, tries.c.seconds).where(
            tries.c.run == run, tries.c.slot.in_(slots)
        )
    )
    return {(row.slot, row.try_number, row.delivery): row.seconds for row in found}


async def run_status(connection: AsyncConnection, run: UUID) -> RunStatus | None:
    """What a run is doing; None where the read model has no such run."""
    found = await connection.scalar(select(runs.c.status).where(runs.c.id == run))
    return None if found is None else RunStatus(found)


async def has_open_runs(connection: AsyncConnection, workspace: str) -> bool:
    """Whether any run of a workspace has not ended."""
    ended = [status.value for status in RunStatus if status.is_terminal]
    wanted = select(runs.c.id).where(runs.c.workspace == workspace, runs.c.status.not_in(ended))
    return bool(await connection.scalar(select(wanted.exists())))
