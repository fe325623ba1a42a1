"""Submitting a run: everything is checked, and only then is anything done."""

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import RowMapping

from assay_contracts.envelope import EventTooLargeError
from assay_contracts.http import SubmitRun, TaskRow
from assay_contracts.identifiers import parse_positions
from assay_contracts.lifecycle import RunLifecycle
from assay_contracts.problems import ProblemCode
from assay_contracts.run_config import ConfigIssue, RunConfig
from assay_contracts.run_events import RunEvent, RunSubmitted, SubmittedData
from assay_contracts.values import BenchmarkPin, BenchmarkRules, SourceType, SyncStatus, TaskSet
from gateway import benchmark_queries, domain
from gateway.access import Caller
from gateway.benchmarks import unknown
from gateway.billing import Opening, billed
from gateway.desk import Desk
from gateway.drafts import Draft, read_draft
from gateway.identities import is_repeated, work_id
from gateway.moments import stamp
from gateway.own_queries import RUN
from gateway.problems import ProblemError, invalid, too_large
from gateway.selections import Offer, Resolved, resolve
from gateway.system import ask_runners

LONGEST_NAME = "x" * 80


@dataclass(frozen=True)
class Checked:
    """A submission in which there is nothing wrong."""

    config: RunConfig
    benchmark: RowMapping
    tasks: Sequence[TaskRow]
    resolved: Resolved
    scopes: dict[str, str]


async def submit_run(body: SubmitRun, asking: Caller, desk: Desk) -> tuple[RunSubmitted, bool]:
    """Check a submission and append it; returns the event, and whether the run can be read by now.

    Raises:
        ProblemError: with every mistake; then nothing was done.
    """
    run = work_id("run")
    if is_repeated() and (await desk.run_state(asking.workspace, run)).submitted is not None:
        first_event = await desk.first_event(asking.workspace, run)
        return first_event, await desk.shows_run(asking.workspace, run)
    event, listed = await checked_event(body, asking, desk)
    tasks = [listed[place].name for place in places_of(event.data, listed)]
    async with billed(desk.gate) as admit:
        await admit(Opening.first(asking.workspace, asking.user, event.run, event.data, tasks))
        name = await desk.begin_run(asking.workspace, event.run, body.secrets, asking.user)
        named = event.model_copy(update={"data": event.data.model_copy(update={"name": name})})

        def first(state: RunLifecycle) -> RunEvent:
            if state.submitted is not None:
                raise domain.DecisionRefusedError("the run was submitted already")
            return named

        return named, await desk.decide_on_run(asking.workspace, event.run, first)


async def checked_event(
    body: SubmitRun, asking: Caller, desk: Desk
) -> tuple[RunSubmitted, Sequence[TaskRow]]:
    """The event that a submission leads to, still without its name, and the pinned task list.

    Raises:
        ProblemError: with every mistake.
    """
    checked = await _check(read_draft(body), body, asking, desk)
    event = domain.submit(
        work_id("run"),
        _submitted(checked, body),
        stamp(asking.user),
        asking.workspace,
        asking.request_id,
    )
    try:
        event.to_bytes()
    except EventTooLargeError as error:
        message = "shorten env and extra_headers, or choose categories instead of names"
        raise too_large(f"{error}: {message}") from error
    return event, checked.tasks


def places_of(data: SubmittedData, listed: Sequence[TaskRow]) -> Sequence[int]:
    """Where the tasks that would run stand in the pinned list."""
    if data.selection.positions is not None:
        return parse_positions(data.selection.positions)
    return [place for place, task in enumerate(listed) if task.unavailable is None]


async def _check(draft: Draft, body: SubmitRun, asking: Caller, desk: Desk) -> Checked:
    """Find every mistake of every kind before the first is told.

    Where the configuration has mistakes, all kinds are told together as issues. Where it has none,
    the benchmark's trouble, or the missing secrets, go out under a code of their own.
    """
    issues = list(draft.issues)
    if body.environment is not None and all(one.key != "environment" for one in issues):
        issues += await _environment_issues(body.environment, desk)
    benchmark, resolved, trouble = None, None, None
    listed: list[TaskRow] = []
    if draft.benchmark is not None:
        async with desk.reading() as connection:
            benchmark = await benchmark_queries.find_benchmark(
                connection, asking.workspace, draft.benchmark
            )
            if benchmark is None:
                trouble = await unknown(connection, asking.workspace, draft.benchmark)
            else:
                listed = await benchmark_queries.task_rows(connection, benchmark["sync"])
                trouble = not_ready(benchmark)
    if benchmark is not None and trouble is None:
        resolved = resolve(draft, offer_of(benchmark, listed))
        issues.extend(resolved.issues)
    wanted = draft.required_secrets
    scopes = await desk.vault.scopes(asking.workspace, asking.user, wanted) if wanted else {}
    scopes |= dict.fromkeys(body.secrets, RUN)
    missing = [name for name in wanted if name not in scopes]
    if issues:
        raise _all_together(issues, trouble, missing)
    if trouble is not None:
        raise _with_missing(trouble, missing)
    if missing:
        raise missing_secrets(missing)
    if draft.config is None or benchmark is None or resolved is None:  # pragma: no cover
        raise RuntimeError("a submission without an issue was not read whole")
    return Checked(draft.config, benchmark, listed, resolved, scopes)


async def _environment_issues(environment: str, desk: Desk) -> list[ConfigIssue]:
    """A mistake where runners answer and none of them can run the environment.

    Where no runner answers for the moment, one that can may come: the run waits for it.
    """
    runners = await ask_runners(desk.store.client)
    can = {str(one) for runner in runners for one in runner.details.get("environments", [])}
    can |= {str(runner.details["default"]) for runner in runners if "default" in runner.details}
    if not runners or environment in can:
        return []
    reasons = {
        str(runner.details.get("missing", {}).get(environment))
        for runner in runners
        if environment in runner.details.get("missing", {})
    }
    why = f" ({'; '.join(sorted(reasons))})" if reasons else ""
    return [
        ConfigIssue(
            key="environment",
            message=f"no runner here can run {environment}{why}; "
            f"they can run {', '.join(sorted(can))}",
        )
    ]


def _all_together(
    issues: list[ConfigIssue], trouble: ProblemError | None, missing: list[str]
) -> ProblemError:
    if trouble is not None:
        issues.append(ConfigIssue(key="experiment.benchmark", message=trouble.problem.detail))
    issues.extend(
        ConfigIssue(key=f"secrets.{name}", message=f"is missing; type: assay secret set {name}")
        for name in missing
    )
    problem = invalid(issues)
    if missing:
        problem.problem.details["missing"] = missing
    return problem


def _with_missing(trouble: ProblemError, missing: list[str]) -> ProblemError:
    if missing:
        trouble.problem.detail += f"; besides, {_missing_text(missing)}"
        trouble.problem.details["missing"] = missing
    return trouble


def missing_secrets(names: list[str]) -> ProblemError:
    """Secrets that a run needs and that are not there."""
    return ProblemError(
        ProblemCode.MISSING_SECRETS, 404, _missing_text(names), details={"missing": names}
    )


def _missing_text(names: list[str]) -> str:
    commands = "; ".join(f"assay secret set {name}" for name in names)
    return f"secrets are missing: {', '.join(names)}; set them with: {commands}"


def not_ready(row: RowMapping) -> ProblemError | None:
    status = SyncStatus(row["sync_status"])
    name = row["name"]
    match status:
        case SyncStatus.READY:
            return None
        case SyncStatus.FAILED:
            said = (
                f"the tasks of {name} could not be read: {row['sync_error']}; "
                f"put that right and type: assay benchmark sync {name}"
            )
        case SyncStatus.SYNCING:
            total = row["syncing_task_count"]
            progress = f"{row['synced_task_count']} of {total}" if total else "starting"
            said = f"the tasks of {name} are being read ({progress}); submit once it is ready"
        case SyncStatus.PENDING:
            said = f"the tasks of {name} wait to be read; submit once it is ready"
    return ProblemError(
        ProblemCode.BENCHMARK_NOT_READY,
        409,
        f"{name} is {status.value}: {said}",
        details={
            "sync_status": status.value,
            "synced_task_count": row["synced_task_count"],
            "syncing_task_count": row["syncing_task_count"],
            "sync_error": row["sync_error"],
        },
    )


def offer_of(row: RowMapping, listed: Sequence[TaskRow]) -> Offer:
    return Offer(
        tasks=listed,
        task_sets=[TaskSet.model_validate(one) for one in row["task_sets"]],
        rules=BenchmarkRules.model_validate(row["rules"]),
        source_type=SourceType(row["source_type"]),
    )


def _submitted(checked: Checked, body: SubmitRun) -> SubmittedData:
    config, row, resolved = checked.config, checked.benchmark, checked.resolved
    selection, execution = resolved.selection, resolved.execution
    return SubmittedData(
        name=LONGEST_NAME,
        benchmark=pin_of(row),
        selection=selection,
        agents=resolved.agents,
        execution=execution,
        environment=body.environment,
        env=config.env,
        verifier_secrets=tuple(config.verifier.required),
        run_secrets=tuple(config.secrets.required),
        secret_scopes=checked.scopes,
        expected_results=selection.task_count * len(resolved.agents) * execution.attempts_per_task,
        judge=resolved.judge,
    )


def pin_of(row: RowMapping) -> BenchmarkPin:
    """The version of a benchmark that serves now."""
    return BenchmarkPin(
        id=row["id"],
        owner=row["workspace"],
        name=row["name"],
        key=row["key"],
        source_type=row["source_type"],
        sync=row["sync"],
        version=row["version"],
        digest=row["digest"],
    )
