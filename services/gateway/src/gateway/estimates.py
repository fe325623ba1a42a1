"""What a run is likely to cost and how long it takes, before it is submitted.

Drawn from past results of the same agents (harness and model) on the same benchmark in the same
workspace, whatever its version: the tasks are told apart by name. Imported results are left out,
since they were made on other machines. Where nothing is known, nothing is said.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from sqlalchemy import RowMapping, and_, case, func, select, tuple_
from sqlalchemy.ext.asyncio import AsyncConnection

from assay_contracts.http import AgentEstimate, RunEstimate
from assay_contracts.labels import agent_label
from assay_contracts.run_config import Agent
from assay_contracts.run_events import SubmittedData
from assay_contracts.values import Outcome, RunStatus
from gateway.forecasts import FEWEST, Past, Total, share_kept_busy, total_of, total_to_come
from gateway.read_models import runs, tries

LATEST_RUNS = 10
"""As many runs of an entrant are looked at: enough to tell, few enough to follow changes."""

_MOST_RUNS = 500
"""Among so many of the benchmark's latest runs they are looked for."""


@dataclass(frozen=True)
class History:
    """What one agent's past results took, by task; `cost` and `seconds` of those that report it."""

    runs: int
    results: int
    tries: int
    tasks: frozenset[str]
    cost: Mapping[str, Past]
    seconds: Mapping[str, Past]


async def estimate_run(
    connection: AsyncConnection, workspace: str, data: SubmittedData, tasks: Sequence[str]
) -> RunEstimate:
    """The estimate for a run on the chosen `tasks`."""
    past = await _past_runs(connection, workspace, data.benchmark.id)
    attempts = data.execution.attempts_per_task
    agents: list[AgentEstimate] = []
    costs: list[Total | None] = []
    times: list[Total | None] = []
    for index, agent in enumerate(data.agents):
        history = await _history(connection, _places_of(agent, past))
        cost = total_to_come(history.cost, tasks, attempts)
        busy = total_to_come(history.seconds, tasks, attempts)
        costs.append(cost)
        times.append(busy)
        agents.append(_agent_estimate(index, agent, history, tasks, cost, busy))
    measured = await _measured(connection, past)
    concurrency = _concurrency(data, measured)
    known_costs = [one for one in costs if one is not None]
    known_times = [one for one in times if one is not None]
    has_costs, has_times = len(known_costs) == len(agents), len(known_times) == len(agents)
    return RunEstimate(
        cost_usd=total_of(known_costs).forecast() if has_costs else None,
        why_no_cost=None if has_costs else _without(data.agents, costs, "cost"),
        seconds=total_of(known_times).over(concurrency).forecast() if has_times else None,
        why_no_time=None if has_times else _without(data.agents, times, "duration"),
        concurrency=concurrency,
        measured_runs=len(measured),
        agents=agents,
    )


async def totals_by_agent(
    connection: AsyncConnection,
    workspace: str,
    data: SubmittedData,
    tasks: Mapping[int, Sequence[str]],
) -> dict[int, tuple[Total | None, Total | None]]:
    """What results on the `tasks` of each agent will take, in USD and in seconds; a task that has
    several results to come is named as often. None where nobody can tell."""
    past = await _past_runs(connection, workspace, data.benchmark.id)
    totals: dict[int, tuple[Total | None, Total | None]] = {}
    for index, named in tasks.items():
        history = await _history(connection, _places_of(data.agents[index], past))
        cost, seconds = (total_to_come(one, named, 1) for one in (history.cost, history.seconds))
        totals[index] = (cost, seconds)
    return totals


def _concurrency(data: SubmittedData, measured: Sequence[float]) -> float:
    """How many sandboxes will be at work at a time, on the whole."""
    asked = min(data.execution.max_concurrent_attempts, data.expected_results)
    return max(1.0, asked * share_kept_busy(measured))


def _without(agents: Sequence[Agent], totals: Sequence[Total | None], what: str) -> str:
    named = [
        agent_label(agent.harness, agent.model_label)
        for agent, total in zip(agents, totals, strict=True)
        if total is None
    ]
    return f"the {what} of {', '.join(named)} is not known"


def _agent_estimate(
    index: int,
    agent: Agent,
    history: History,
    tasks: Sequence[str],
    cost: Total | None,
    busy: Total | None,
) -> AgentEstimate:
    label = agent_label(agent.harness, agent.model_label)
    return AgentEstimate(
        agent=index,
        past_runs=history.runs,
        past_results=history.results,
        past_tries=history.tries,
        known_tasks=len(history.tasks.intersection(tasks)),
        cost_usd=None if cost is None else cost.forecast(),
        why_no_cost=None if cost else _why_not(label, history, history.cost, "report a cost"),
        busy_seconds=None if busy is None else busy.forecast(),
        why_no_time=None if busy else _why_not(label, history, history.seconds, "were timed"),
    )


def _why_not(label: str, history: History, told: Mapping[str, Past], what: str) -> str:
    if history.results == 0:
        return f"{label} has no result on this benchmark yet"
    count = sum(one.results for one in told.values())
    if count >= FEWEST:
        return f"the past results of {label} that {what} are on one task, and others may differ"
    return f"{count} of the {history.results} past results of {label} {what}, and two are needed"


async def _past_runs(
    connection: AsyncConnection, workspace: str, benchmark: UUID
) -> list[RowMapping]:
    """The latest runs of the benchmark that were made here, the newest first."""
    found = await connection.execute(
        select(
            *(runs.c.id, runs.c.status, runs.c.expected_results),
            *(runs.c.started_at, runs.c.last_started_at, runs.c.ended_at),
            runs.c.submitted["agents"].label("agents"),
            runs.c.submitted["execution"]["max_concurrent_attempts"].as_integer().label("at_once"),
        )
        .where(
            runs.c.workspace == workspace,
            runs.c.benchmark == benchmark,
            runs.c.submitted["imported"].astext.is_(None),
        )
        .order_by(runs.c.submitted_at.desc(), runs.c.id.desc())
        .limit(_MOST_RUNS)
    )
    return list(found.mappings())


def _places_of(agent: Agent, past: Sequence[RowMapping]) -> list[tuple[UUID, int]]:
    """The entrant's latest runs, each with its number in it."""
    wanted = (agent.harness, agent.model_label)
    found = [
        (row["id"], index)
        for row in past
        for index, one in enumerate(map(Agent.model_validate, row["agents"]))
        if (one.harness, one.model_label) == wanted
    ]
    return found[:LATEST_RUNS]


async def _history(connection: AsyncConnection, places: Sequence[tuple[UUID, int]]) -> History:
    """What the results took, with every try of their slots; those that were cut off count not."""
    by_slot = (
        select(
            tries.c.run,
            tries.c.task,
            func.count().label("tries"),
            _sum_if_all(tries.c.cost_usd).label("cost"),
            _sum_if_all(tries.c.seconds).label("seconds"),
        )
        .where(tuple_(tries.c.run, tries.c.agent).in_(places))
        .group_by(tries.c.run, tries.c.slot, tries.c.task)
        .having(
            func.bool_and(
                and_(
                    tries.c.environment.is_not(None),
                    tries.c.outcome.is_not(None),
                    tries.c.outcome != Outcome.CANCELLED.value,
                )
            )
        )
        .cte("by_slot")
    )
    found = await connection.execute(
        select(
            by_slot.c.task,
            func.count().label("results"),
            func.sum(by_slot.c.tries).label("tries"),
            *_moments(by_slot.c.cost, "cost"),
            *_moments(by_slot.c.seconds, "seconds"),
        ).group_by(by_slot.c.task)
    )
    rows = list(found.mappings())
    return History(
        runs=len({run for run, _ in places}),
        results=sum(row["results"] for row in rows),
        tries=int(sum(row["tries"] for row in rows)),
        tasks=frozenset(row["task"] for row in rows),
        cost=_by_task(rows, "cost"),
        seconds=_by_task(rows, "seconds"),
    )


def _sum_if_all(column: Any) -> Any:
    """The sum over a slot's tries; null where one of them does not report it."""
    return case((func.bool_and(column.is_not(None)), func.sum(column)))


def _moments(column: Any, name: str) -> list[Any]:
    return [
        func.count(column).label(f"{name}_results"),
        func.avg(column).label(f"{name}_mean"),
        func.coalesce(func.var_samp(column), 0.0).label(f"{name}_variance"),
    ]


def _by_task(rows: Sequence[RowMapping], name: str) -> dict[str, Past]:
    return {
        row["task"]: Past(row[f"{name}_results"], row[f"{name}_mean"], row[f"{name}_variance"])
        for row in rows
        if row[f"{name}_results"]
    }


async def _measured(connection: AsyncConnection, past: Sequence[RowMapping]) -> list[float]:
    """Which share of the sandboxes that it asked for each of the latest runs kept busy.

    Of runs that finished in one go: what ran again later stood still in between.
    """
    whole = [
        row
        for row in past
        if row["status"] == RunStatus.FINISHED.value
        and row["started_at"] == row["last_started_at"]
        and row["ended_at"] > row["started_at"]
    ][:LATEST_RUNS]
    found = await connection.execute(
        select(tries.c.run, func.sum(tries.c.seconds).label("busy"))
        .where(tries.c.run.in_([row["id"] for row in whole]))
        .group_by(tries.c.run)
    )
    busy = {row.run: row.busy for row in found if row.busy}
    return [
        busy[row["id"]]
        / (row["ended_at"] - row["started_at"]).total_seconds()
        / min(row["at_once"], row["expected_results"])
        for row in whole
        if row["id"] in busy
    ]
