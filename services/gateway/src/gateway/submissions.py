"""Submitting a run: everything is checked, and only then is anything done."""

import re
from collections.abc import Sequence
from uuid import UUID

from sqlalchemy import RowMapping

from assay_contracts.envelope import Event, EventTooLargeError
from assay_contracts.http import SubmitRun, TaskRow
from assay_contracts.identifiers import new_id
from assay_contracts.lifecycle import RunLifecycle
from assay_contracts.problems import ProblemCode
from assay_contracts.run_config import (
    ConfigIssue,
    InvalidRunConfigError,
    RunConfig,
    parse_run_config,
)
from assay_contracts.run_events import RunEvent, SubmittedData
from assay_contracts.values import BenchmarkPin, BenchmarkRules, SourceType, SyncStatus, TaskSet
from gateway import benchmark_queries, domain
from gateway.access import Caller
from gateway.benchmarks import find
from gateway.desk import Desk, stamp
from gateway.problems import ProblemError, invalid
from gateway.selections import Offer, Resolved, resolve
from gateway.system import ask_runners
from gateway.vault import RUN, Record

_ENVIRONMENT = re.compile(r"^[a-z][a-z0-9-]*$")


async def submit_run(body: SubmitRun, asking: Caller, desk: Desk) -> UUID:
    """Check a submission and append it; returns the run's id.

    Raises:
        ProblemError: with every mistake; then nothing was done.
    """
    config, issues = _parsed(body)
    if config is None:
        raise invalid(issues)
    if not issues and body.environment is not None:
        issues += await _environment_issues(body.environment, desk)
    async with desk.reading() as connection:
        benchmark = await find(connection, asking.workspace, config.experiment.benchmark)
        listed = await benchmark_queries.task_rows(connection, benchmark["sync"])
    _require_ready(benchmark)
    resolved = resolve(config, _offer(benchmark, listed))
    if issues or resolved.issues:
        raise invalid([*issues, *resolved.issues])
    scopes = await _scopes(config, body, asking, desk)
    run = new_id()
    data = SubmittedData(
        name=await desk.reserve_name(asking.workspace, run),
        benchmark=_pin(benchmark),
        selection=resolved.selection,
        agents=resolved.agents,
        execution=resolved.execution,
        environment=body.environment,
        env=config.env,
        verifier_secrets=tuple(config.verifier.required),
        run_secrets=tuple(config.secrets.required),
        secret_scopes=scopes,
        expected_results=_results(resolved),
    )
    await _append(run, data, body, asking, desk)
    return run


def _parsed(body: SubmitRun) -> tuple[RunConfig | None, list[ConfigIssue]]:
    issues: list[ConfigIssue] = []
    config = None
    try:
        config = parse_run_config(body.config)
    except InvalidRunConfigError as error:
        issues.extend(error.issues)
    if body.environment is not None and not _ENVIRONMENT.match(body.environment):
        issues.append(ConfigIssue(key="environment", message="must be small letters and dashes"))
    allowed = set() if config is None else set(config.secrets.required)
    issues.extend(
        ConfigIssue(key=f"secrets.{name}", message="is not in [secrets].required")
        for name in body.secrets
        if config is not None and name not in allowed
    )
    return config, issues


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


def _require_ready(row: RowMapping) -> None:
    status = SyncStatus(row["sync_status"])
    if status is SyncStatus.READY:
        return
    name = row["name"]
    if status is SyncStatus.FAILED:
        said = (
            f"the tasks of {name} could not be read: {row['sync_error']}; "
            f"put that right and type: assay benchmark sync {name}"
        )
    elif status is SyncStatus.SYNCING:
        total = row["syncing_task_count"]
        progress = f"{row['synced_task_count']} of {total}" if total else "starting"
        said = f"the tasks of {name} are being read ({progress}); submit once it is ready"
    else:
        said = f"the tasks of {name} wait to be read; submit once it is ready"
    raise ProblemError(ProblemCode.BENCHMARK_NOT_READY, 409, said)


def _offer(row: RowMapping, listed: Sequence[TaskRow]) -> Offer:
    return Offer(
        tasks=listed,
        task_sets=[TaskSet.model_validate(one) for one in row["task_sets"]],
        rules=BenchmarkRules.model_validate(row["rules"]),
        source_type=SourceType(row["source_type"]),
    )


def _pin(row: RowMapping) -> BenchmarkPin:
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


def _results(resolved: Resolved) -> int:
    attempts = resolved.execution.attempts_per_task
    return resolved.selection.task_count * len(resolved.agents) * attempts


async def _scopes(config: RunConfig, body: SubmitRun, asking: Caller, desk: Desk) -> dict[str, str]:
    """Where each secret comes from; a problem that names all that are nowhere."""
    wanted = config.required_secrets()
    scopes = await desk.vault.scopes(asking.workspace, asking.user, wanted)
    scopes |= dict.fromkeys(body.secrets, RUN)
    missing = [name for name in wanted if name not in scopes]
    if missing:
        commands = "; ".join(f"assay secret set {name}" for name in missing)
        raise ProblemError(
            ProblemCode.MISSING_SECRETS,
            404,
            f"secrets are missing: {', '.join(missing)}; set them with: {commands}",
            details={"missing": missing},
        )
    return scopes


async def _append(
    run: UUID, data: SubmittedData, body: SubmitRun, asking: Caller, desk: Desk
) -> None:
    submitted = domain.submit(run, data, stamp(asking.user), asking.workspace, asking.request_id)
    try:
        submitted.to_bytes()
    except EventTooLargeError as error:
        raise ProblemError(
            ProblemCode.TOO_LARGE,
            413,
            f"{error}: shorten env and extra_headers, or choose categories instead of names",
        ) from error
    for name, value in body.secrets.items():
        await desk.vault.keep(Record(asking.workspace, RUN, str(run), name), value, asking.user)

    def first(state: RunLifecycle, _: Event | None) -> RunEvent:
        if state.submitted is not None:
            raise domain.DecisionRefusedError("the run was submitted already")
        return submitted

    await desk.decide_on_run(asking.workspace, run, first)
