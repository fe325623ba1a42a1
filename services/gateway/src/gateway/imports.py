"""Runs whose results were made elsewhere: submitted and told like any other, and never handed out.

The same request makes the same run, and the same result the same event, so that an import that was
cut off is simply sent again.
"""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from uuid import UUID, uuid5

from sqlalchemy import RowMapping

from assay_contracts.http import ImportedResult, ImportReceipt, ImportResults, ImportRun
from assay_contracts.identifiers import Slot, parse_positions
from assay_contracts.labels import NO_MODEL
from assay_contracts.lifecycle import RunLifecycle
from assay_contracts.run_config import Agent, ConfigIssue, Execution, NamedModel
from assay_contracts.run_events import (
    ResolvedExecution,
    ResultIngested,
    ResultIngestedData,
    RunEvent,
    RunSubmitted,
    SubmittedData,
)
from assay_contracts.values import Selection
from gateway import benchmark_queries, domain, run_queries
from gateway.access import Caller
from gateway.benchmarks import unknown
from gateway.desk import Desk
from gateway.moments import stamp
from gateway.problems import conflict, invalid
from gateway.selections import select
from gateway.submissions import LONGEST_NAME, not_ready, offer_of, pin_of

ENVIRONMENT = "imported"
"""What imported results name in place of a sandbox."""

_RUNNER = "import"
_NAMESPACE = UUID("3f0f4b5e-6c0a-5d0e-9c53-0f3a1f7f2b61")


async def import_run(body: ImportRun, asking: Caller, desk: Desk) -> UUID:
    """Submit a run for imported results; the run's id, of one that is there already too.

    Raises:
        ProblemError: with every mistake; then nothing was done.
    """
    async with desk.reading() as connection:
        row = await benchmark_queries.find_benchmark(connection, asking.workspace, body.benchmark)
        if row is None:
            raise await unknown(connection, asking.workspace, body.benchmark)
        listed = await benchmark_queries.task_rows(connection, row["sync"])
    if (trouble := not_ready(row)) is not None:
        raise trouble
    issues: list[ConfigIssue] = []
    offer = offer_of(row, listed)
    selection = select(body.tasks, offer, issues)
    if issues:
        raise invalid(issues)
    run, is_there = await _run_of(body, asking.workspace, row, desk)
    if is_there:
        return run
    threshold = body.pass_threshold
    execution = ResolvedExecution(
        attempts_per_task=body.attempts_per_task,
        max_concurrent_attempts=Execution().max_concurrent_attempts,
        timeout_multiplier=Execution().timeout_multiplier,
        max_retries=0,
        pass_threshold=offer.rules.pass_threshold if threshold is None else threshold,
        reward_key=offer.rules.reward_key,
    )
    data = SubmittedData(
        name=LONGEST_NAME,
        benchmark=pin_of(row),
        selection=selection,
        agents=tuple(_agent(one.harness, one.model) for one in body.agents),
        execution=execution,
        expected_results=_size(selection, body),
        imported=body.source,
    )
    await _submit(run, data, asking, desk)
    return run


async def _run_of(
    body: ImportRun, workspace: str, benchmark: RowMapping, desk: Desk
) -> tuple[UUID, bool]:
    """The run of an import, and whether it is there already.

    Its id is made from what was asked for and the pinned version, however the benchmark was called;
    and from the run that it was before, where that was deleted.
    """
    asked = sha256(body.model_dump_json(exclude={"benchmark"}).encode()).hexdigest()
    pinned = f"{benchmark['id']}/{benchmark['version']}/{benchmark['digest']}"
    run = uuid5(_NAMESPACE, f"{workspace}/{pinned}/{asked}")
    while (state := await desk.run_state(workspace, run)).deleted:
        run = uuid5(run, asked)
    return run, state.submitted is not None


def _agent(harness: str | None, model: str) -> Agent:
    named = None if model == NO_MODEL else NamedModel(type="named", model=model)
    return Agent(harness=harness, model=named)


def _size(selection: Selection, body: ImportRun) -> int:
    return selection.task_count * len(body.agents) * body.attempts_per_task


async def _submit(run: UUID, data: SubmittedData, asking: Caller, desk: Desk) -> None:
    name = await desk.begin_run(asking.workspace, run, {}, asking.user)
    named = data.model_copy(update={"name": name})
    event = domain.submit(run, named, stamp(asking.user), asking.workspace, asking.request_id)

    def first(state: RunLifecycle) -> RunEvent:
        if state.submitted is not None:
            raise AlreadyThereError
        return event

    try:
        await desk.decide_on_run(asking.workspace, run, first)
    except AlreadyThereError:
        return  # the same import was sent twice at the same time


class AlreadyThereError(Exception):
    """The same import came first."""


async def take_results(
    run: RowMapping, body: ImportResults, asking: Caller, desk: Desk
) -> ImportReceipt:
    """Tell the results of an imported run that are not told yet.

    Raises:
        ProblemError: the run is not imported or has ended; or with every mistake in the results,
            and then none of them was told.
    """
    submitted = SubmittedData.model_validate(run["submitted"])
    if submitted.imported is None:
        raise conflict("the run is not an imported one; its results come from its sandboxes")
    async with desk.reading() as connection:
        names = await benchmark_queries.task_rows(connection, submitted.benchmark.sync)
    places = submitted.selection.positions
    chosen = range(len(names)) if places is None else parse_positions(places)
    tasks = {names[place].name for place in chosen}
    if issues := list(_result_issues(body.results, submitted, tasks)):
        raise invalid(issues)
    slots = {
        Slot(agent=one.agent, task=one.task, attempt=one.attempt).id(run["id"]): one
        for one in body.results
    }
    async with desk.reading() as connection:
        known = await run_queries.known_slots(connection, run["id"], list(slots))
    fresh = [one for slot, one in slots.items() if slot not in known]
    if fresh:
        await _require_open(run, asking, desk)
        first = await desk.first_event(asking.workspace, run["id"])
        await desk.tell_all(_event(first, one, asking) for one in fresh)
    return ImportReceipt(received=len(body.results), added=len(fresh))


async def _require_open(run: RowMapping, asking: Caller, desk: Desk) -> None:
    state = await desk.run_state(asking.workspace, run["id"])
    if state.status.is_terminal or state.stop_requested is not None:
        raise conflict(
            f"the run is {state.status.value} and takes no more results; import into a new run"
        )


def _result_issues(
    results: Sequence[ImportedResult], submitted: SubmittedData, tasks: set[str]
) -> Iterable[ConfigIssue]:
    agents, attempts = len(submitted.agents), submitted.execution.attempts_per_task
    seen: set[tuple[int, str, int]] = set()
    for index, one in enumerate(results):
        key = f"results[{index}]"
        if one.agent >= agents:
            yield ConfigIssue(key=f"{key}.agent", message=f"the run has {agents} agents")
        if one.attempt > attempts:
            yield ConfigIssue(key=f"{key}.attempt", message=f"the run has {attempts} a task")
        if one.task not in tasks:
            yield ConfigIssue(key=f"{key}.task", message=f"the run has no task {one.task}")
        cell = (one.agent, one.task, one.attempt)
        if cell in seen:
            yield ConfigIssue(key=key, message="is the second of its agent, task and attempt")
        seen.add(cell)


def _event(first: RunSubmitted, one: ImportedResult, asking: Caller) -> ResultIngested:
    slot = Slot(agent=one.agent, task=one.task, attempt=one.attempt)
    now = datetime.now(UTC)
    took = timedelta(seconds=one.seconds or 0.0)
    began = one.started_at or now - took
    data = ResultIngestedData(
        slot=slot,
        try_number=1,
        runner=_RUNNER,
        environment=ENVIRONMENT,
        harness_version=one.harness_version,
        rewards=one.rewards,
        reward_valid=one.reward_valid,
        retryable=False,
        cancelled=one.cancelled,
        exception=one.exception,
        started_at=began,
        finished_at=began + took,
        timed=one.seconds is not None,
        durations=one.durations,
        usage=one.usage,
    )
    told = stamp(asking.user).following(first) | {
        "id": uuid5(slot.id(first.run), "imported result"),
        "run": first.run,
        "data": data,
    }
    return ResultIngested.model_validate(told)


__all__: Sequence[str] = ["ENVIRONMENT", "import_run", "take_results"]
