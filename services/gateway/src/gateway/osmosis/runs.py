"""Runs for the client: submit, list, show, logs, stop."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal
from uuid import UUID, uuid5

from fastapi import APIRouter, Query

from assay_contracts.http import AgentRow, RunDetail, RunEntry
from assay_contracts.http import SubmitRun as Submission
from assay_contracts.run_events import SubmittedData
from assay_contracts.values import RunStatus
from gateway import run_log, runs
from gateway import run_queries as queries
from gateway.desk import Desk, DeskNow
from gateway.latest_events import messages_before
from gateway.osmosis import wire
from gateway.osmosis.measures import amount, curve, rate
from gateway.osmosis.paging import Limit, LineLimit, paging
from gateway.osmosis.queries import People, people_called, ranks_of_run
from gateway.osmosis.scope import Reading, Running
from gateway.paging import LARGEST_SEQUENCE, Offset
from gateway.run_events import run_messages
from gateway.submissions import submit_run

router = APIRouter(prefix="/benchmark-runs")

LogCursor = Annotated[int | None, Query(ge=0, le=LARGEST_SEQUENCE)]


@router.post("", status_code=201)
async def submit(body: wire.SubmitRun, asking: Running, desk: DeskNow) -> wire.SubmittedRun:
    """`osmosis benchmark submit`."""
    event, _ = await submit_run(_submission(body), asking, desk)
    return wire.SubmittedRun(
        id=event.run,
        name=event.data.name,
        status=RunStatus.PENDING,
        workflow_id=f"benchmark-run/{event.run}",
        task_count=event.data.selection.task_count,
        created_at=event.occurred_at,
    )


@router.get("")
async def list_all(
    asking: Reading,
    desk: DeskNow,
    benchmark: str | None = None,
    limit: Limit = 50,
    offset: Offset = 0,
) -> wire.Runs:
    """`osmosis benchmark runs list`, and the runs of `benchmark info`."""
    found = await runs.list_all(asking, desk, benchmark=benchmark, limit=limit, offset=offset)
    people = await _submitters(found.items, desk)
    return wire.Runs(benchmark_runs=[_entry(one, people) for one in found.items], **paging(found))


@router.get("/{ref}")
async def show(ref: str, asking: Reading, desk: DeskNow) -> wire.ShownRun:
    """`osmosis benchmark runs info`."""
    async with desk.reading() as connection:
        row = await runs.find(connection, asking.workspace, ref)
        detail = await queries.describe_run(connection, row)
        ranks = await ranks_of_run(connection, asking.workspace, row["id"])
    submitted = SubmittedData.model_validate(row["submitted"])
    people = await _submitters([detail], desk)
    return wire.ShownRun(
        benchmark_run=_entry(detail, people),
        configuration=_configuration(detail, submitted),
        agents=[_agent(one, detail.id, submitted) for one in detail.agents],
        progress=wire.Progress(ingested=detail.ingested_results, expected=detail.expected_results),
        totals=_totals(detail.agents),
        agent_metrics=[_metrics(one, detail.id, ranks) for one in detail.agents],
    )


@router.get("/{ref}/logs")
async def logs(
    ref: str,
    asking: Reading,
    desk: DeskNow,
    limit: LineLimit = 50,
    direction: Literal["older", "newer"] = "older",
    cursor: LogCursor = None,
) -> wire.Logs:
    """`osmosis benchmark runs logs`: the newest page and back, or the oldest and on."""
    async with desk.reading() as connection:
        row = await runs.find(connection, asking.workspace, ref)
    if direction == "older":
        told, following = await messages_before(
            desk.store, asking.workspace, row["id"], before=cursor, limit=limit
        )
    else:
        told = await run_messages(
            desk.store, asking.workspace, row["id"], after=cursor or 0, limit=limit
        )
        following = told.next_after
    async with desk.reading() as connection:
        seconds = await queries.seconds_of(connection, row["id"], run_log.graded_slots(told))
    lines = run_log.log_page(told, SubmittedData.model_validate(row["submitted"]), seconds)
    return wire.Logs(
        logs=[wire.LogLine(**one.model_dump(exclude={"sequence"})) for one in lines.items],
        next_cursor=None if following is None else str(following),
    )


@router.post("/{ref}/stop")
async def stop(ref: str, asking: Running, desk: DeskNow) -> wire.Run:
    """`osmosis benchmark runs stop`; what the client sends with it says nothing."""
    entry = await runs.stop(ref, asking, desk)
    return _entry(entry, await _submitters([entry], desk))


def _submission(body: wire.SubmitRun) -> Submission:
    """Our own submission; a section that was left out is left out here too."""
    execution = dict(body.execution_config or {})
    secrets = body.secrets or wire.SubmittedSecrets()
    sections: dict[str, Any] = {
        "experiment": body.experiment_config,
        "tasks": body.tasks_config,
        "agents": body.agents,
        "verifier": {"required": execution.pop("verifier_secrets")}
        if "verifier_secrets" in execution
        else None,
        "execution": execution,
        "secrets": {"required": secrets.required},
        "env": body.env_config,
    }
    config = {name: section for name, section in sections.items() if section is not None}
    return Submission(config=config, secrets=secrets.provided)


async def _submitters(entries: Sequence[RunEntry], desk: Desk) -> People:
    async with desk.acting() as connection:
        return await people_called(connection, [one.submitted_by for one in entries])


def _entry(entry: RunEntry, people: People) -> wire.Run:
    return wire.Run(
        id=entry.id,
        name=entry.name,
        status=entry.status,
        benchmark_id=entry.benchmark_id,
        benchmark_name=entry.benchmark_name,
        agent_count=entry.agent_count,
        best_pass_at_1=entry.best_pass_at_1,
        ingested_results=entry.ingested_results,
        expected_results=entry.expected_results,
        creator_name=people.name(entry.submitted_by),
        creator_email=people.addresses.get(entry.submitted_by),
        created_at=entry.submitted_at,
        started_at=entry.started_at,
        completed_at=entry.ended_at,
    )


def _configuration(detail: RunDetail, submitted: SubmittedData) -> wire.Configuration:
    config = dict(detail.config["execution"])
    if submitted.verifier_secrets:
        config["verifier_secrets"] = list(submitted.verifier_secrets)
    return wire.Configuration(
        benchmark_id=detail.benchmark_id,
        benchmark_name=detail.benchmark_name,
        source_type=submitted.benchmark.source_type,
        source_ref=detail.benchmark_key,
        resolved_version=detail.benchmark_version,
        resolved_digest=detail.benchmark_digest,
        task_filters={name: chosen for name, chosen in detail.config["tasks"].items() if chosen},
        config=config,
        resolved_secret_scopes=detail.secret_scopes,
    )


def agent_id(run: UUID, index: int) -> UUID:
    """An agent's identity, derived from its run and its place there."""
    return uuid5(run, f"agent {index}")


def _agent(agent: AgentRow, run: UUID, submitted: SubmittedData) -> wire.RunAgent:
    return wire.RunAgent(
        id=agent_id(run, agent.index),
        agent_index=agent.index,
        harness=agent.harness,
        model=agent.model,
        model_display_name=agent.model,
        status=agent.status,
        environment_variables={**submitted.env, **submitted.agents[agent.index].env},
        aggregates=wire.Aggregates(
            reported_cost_usd=agent.cost_usd,
            mean_duration_seconds=amount(agent.seconds_per_task),
            tokens_per_task=amount(agent.tokens_per_task),
        ),
    )


def _metrics(agent: AgentRow, run: UUID, ranks: Mapping[int, int | None]) -> wire.AgentMetrics:
    return wire.AgentMetrics(
        benchmark_run_agent_id=agent_id(run, agent.index),
        rank=ranks.get(agent.index),
        n_tasks=agent.n_tasks,
        pass_at_1=rate(agent.pass_at_1),
        pass_at_k=curve(agent.pass_at_k),
    )


def _totals(agents: Sequence[AgentRow]) -> wire.Totals:
    return wire.Totals(
        passed=sum(one.passed for one in agents),
        failed=sum(one.failed for one in agents),
        errored=sum(one.errored for one in agents),
        cancelled=sum(one.cancelled for one in agents),
        total_input_tokens=_known_sum([one.input_tokens for one in agents]),
        total_output_tokens=_known_sum([one.output_tokens for one in agents]),
        total_cost_usd=_known_sum([one.cost_usd for one in agents]),
    )


def _known_sum[Number: (int, float)](reported: Sequence[Number | None]) -> Number | None:
    """The sum over all agents; None unless every one reports it."""
    known = [one for one in reported if one is not None]
    return sum(known) if known and len(known) == len(reported) else None
