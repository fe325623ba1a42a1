"""`assay run`: submit runs, follow them, stop and pause them, run again what errored, delete."""

import os
import sys
import tomllib
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from assay_client.api import AssayClient
from assay_client.commands.options import (
    Cursor,
    Json,
    Limit,
    Offset,
    RunRef,
    new_commands,
    open_client,
)
from assay_client.dotenv import parse_dotenv, resolve_run_secrets
from assay_client.errors import InterruptedByUserError, InvalidInputError
from assay_client.render.meter import Meter
from assay_client.render.output import answer, show, write_json
from assay_client.render.previews import preview
from assay_client.render.runs import (
    deleted,
    left,
    pausing,
    result_list,
    retried,
    run_list,
    run_page,
    stopping,
    submitted,
)
from assay_client.watching import watch_run
from assay_contracts.http import (
    PauseRun,
    ResultSort,
    ResumeRun,
    RetryRun,
    RunDetail,
    StopRun,
    SubmitRun,
)
from assay_contracts.run_config import InvalidRunConfigError, parse_run_config_toml
from assay_contracts.values import CauseClass, Outcome, RunStatus

commands = new_commands("Submit, list, show, follow, stop, pause, retry and delete runs.")

_MOMENTS = ["%Y-%m-%d", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%dT%H:%M:%SZ", "%Y-%m-%dT%H:%M:%S%z"]

SecretsFile = Annotated[
    str | None,
    typer.Option(
        "--secrets-file",
        metavar="FILE|-",
        help="Values for the names in secrets.required (dotenv; - is stdin). "
        "Names it lacks are taken from the environment.",
    ),
]


@commands.command()
def submit(
    context: typer.Context,
    *,
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE", help="The run's configuration (TOML).", exists=True, dir_okay=False
        ),
    ],
    environment: Annotated[
        str | None,
        typer.Option("--environment", metavar="NAME", help="Sandbox to run in, such as docker."),
    ] = None,
    secrets_file: SecretsFile = None,
    watch: Annotated[bool, typer.Option("--watch", help="Follow the run until it ends.")] = False,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run", help="Check it and estimate cost and time; nothing is submitted."
        ),
    ] = False,
    as_json: Json = False,
) -> None:
    """Submit a run. Exits with 1 where a followed run fails or is stopped."""
    request = _request(file, environment, secrets_file)
    with open_client(context) as client:
        if dry_run:
            answer(client.validate_run(request), as_json, preview)
            return
        run = client.submit_run(request)
        if not watch:
            answer(run, as_json, submitted)
            return
        if not as_json:
            show(lambda frame: submitted(run, frame))
        _follow(client, str(run.id), as_json, is_new=True)


@commands.command("list")
def list_runs(
    context: typer.Context,
    benchmark: Annotated[
        str | None,
        typer.Option("--benchmark", help="Runs on this benchmark alone (key, name or id)."),
    ] = None,
    statuses: Annotated[
        list[RunStatus] | None,
        typer.Option("--status", help="Those in this status. May be repeated."),
    ] = None,
    submitter: Annotated[
        str | None, typer.Option("--submitter", metavar="USER", help="Those of one user.")
    ] = None,
    harness: Annotated[
        str | None, typer.Option("--harness", help="Those with an agent of this harness.")
    ] = None,
    model: Annotated[
        str | None, typer.Option("--model", help="Those with an agent of this model.")
    ] = None,
    since: Annotated[
        datetime | None,
        typer.Option("--since", formats=_MOMENTS, help="Submitted then or later (UTC)."),
    ] = None,
    until: Annotated[
        datetime | None,
        typer.Option("--until", formats=_MOMENTS, help="Submitted before then (UTC)."),
    ] = None,
    search: Annotated[
        str | None, typer.Option("--search", metavar="TEXT", help="Those whose name has this text.")
    ] = None,
    limit: Limit = 50,
    offset: Offset = 0,
    cursor: Cursor = None,
    as_json: Json = False,
) -> None:
    """List the runs of the workspace, the newest first."""
    with open_client(context) as client:
        page = client.runs(
            benchmark=benchmark,
            statuses=statuses or [],
            submitter=submitter,
            harness=harness,
            model=model,
            since=_in_utc(since),
            until=_in_utc(until),
            search=search,
            limit=limit,
            offset=offset,
            cursor=cursor,
        )
        answer(page, as_json, run_list)


def _in_utc(at: datetime | None) -> datetime | None:
    """A moment; one without a zone is meant in UTC."""
    return at.replace(tzinfo=UTC) if at is not None and at.tzinfo is None else at


@commands.command()
def info(context: typer.Context, run: RunRef, as_json: Json = False) -> None:
    """Show a run: status, version, agents with metrics, and why results are no pass."""
    with open_client(context) as client:
        answer(client.run(run), as_json, run_page)


@commands.command()
def results(
    context: typer.Context,
    run: RunRef,
    *,
    agents: Annotated[
        list[int] | None,
        typer.Option("--agent", min=0, help="Those of an agent, by its number. May be repeated."),
    ] = None,
    outcomes: Annotated[
        list[Outcome] | None,
        typer.Option("--outcome", help="Those that ended so. May be repeated."),
    ] = None,
    causes: Annotated[
        list[CauseClass] | None,
        typer.Option("--cause", help="Those that are no pass for this cause. May be repeated."),
    ] = None,
    category: Annotated[
        str | None, typer.Option("--category", help="Those of the tasks of one category.")
    ] = None,
    task: Annotated[str | None, typer.Option("--task", help="Those of one task.")] = None,
    search: Annotated[
        str | None,
        typer.Option("--search", metavar="TEXT", help="Those whose task's name has this text."),
    ] = None,
    sort: Annotated[
        ResultSort, typer.Option("--sort", help="What is unknown comes last.")
    ] = "agent",
    descending: Annotated[
        bool, typer.Option("--desc", help="The largest first, or the last by name.")
    ] = False,
    limit: Limit = 50,
    offset: Offset = 0,
    cursor: Cursor = None,
    as_json: Json = False,
) -> None:
    """List the results of a run, one for each task and attempt of each agent."""
    with open_client(context) as client:
        page = client.run_results(
            run,
            agents=agents or [],
            outcomes=outcomes or [],
            causes=causes or [],
            category=category,
            task=task,
            search=search,
            sort=sort,
            order="desc" if descending else "asc",
            limit=limit,
            offset=offset,
            cursor=cursor,
        )
        if as_json:
            write_json(page)
            return
        legend = client.run_agents(run)
        show(lambda frame: result_list(page, legend, frame))


@commands.command()
def watch(context: typer.Context, run: RunRef, as_json: Json = False) -> None:
    """Follow a run until it ends. Exits with 1 where it fails or is stopped."""
    with open_client(context) as client:
        _follow(client, run, as_json, is_new=False)


@commands.command()
def stop(
    context: typer.Context,
    run: RunRef,
    reason: Annotated[
        str, typer.Option("--reason", help="Why, for those who look at it later.")
    ] = StopRun().reason,
    as_json: Json = False,
) -> None:
    """Stop a run; the results that are there stay."""
    with open_client(context) as client:
        answer(client.stop_run(run, StopRun(reason=reason)), as_json, stopping)


AgentOption = Annotated[
    str | None,
    typer.Option(
        "--agent", metavar="AGENT", help="This agent alone: its number, harness or model."
    ),
]


@commands.command()
def pause(
    context: typer.Context,
    run: RunRef,
    agent: AgentOption = None,
    reason: Annotated[
        str, typer.Option("--reason", help="Why, for those who look at it later.")
    ] = PauseRun().reason,
    as_json: Json = False,
) -> None:
    """Pause a run or one agent: nothing new starts, and what runs may end."""
    with open_client(context) as client:
        paused = client.pause_run(run, PauseRun(agent=agent, reason=reason))
        answer(paused, as_json, pausing)


@commands.command()
def resume(
    context: typer.Context,
    run: RunRef,
    agent: AgentOption = None,
    reason: Annotated[
        str, typer.Option("--reason", help="Why, for those who look at it later.")
    ] = ResumeRun().reason,
    as_json: Json = False,
) -> None:
    """Let a paused agent go on, or all that is paused of a run."""
    with open_client(context) as client:
        resumed = client.resume_run(run, ResumeRun(agent=agent, reason=reason))
        answer(resumed, as_json, pausing)


@commands.command()
def retry(
    context: typer.Context,
    *,
    run: RunRef,
    agents: Annotated[
        list[str] | None,
        typer.Option(
            "--agent",
            metavar="AGENT",
            help="Of this agent alone: number, harness or model. May be repeated.",
        ),
    ] = None,
    tasks: Annotated[
        list[str] | None,
        typer.Option("--task", metavar="TASK", help="Of this task alone. May be repeated."),
    ] = None,
    reason: Annotated[
        str, typer.Option("--reason", help="Why, for those who look at it later.")
    ] = RetryRun().reason,
    secrets_file: SecretsFile = None,
    watch: Annotated[bool, typer.Option("--watch", help="Follow the run until it ends.")] = False,
    as_json: Json = False,
) -> None:
    """Run a finished run's errored results again, on the same run; what was scored stays."""
    given = {} if secrets_file is None else _given_secrets(secrets_file)
    with open_client(context) as client:
        required = client.run(run).config.get("secrets", {}).get("required", [])
        request = RetryRun(
            agents=agents or [],
            tasks=tasks or [],
            reason=reason,
            secrets=resolve_run_secrets(required, given, os.environ),
        )
        again = client.retry_run(run, request)
        if not watch:
            answer(again, as_json, retried)
            return
        if not as_json:
            show(lambda frame: retried(again, frame))
        _follow(client, str(again.id), as_json, is_new=False)


@commands.command()
def delete(
    context: typer.Context,
    run: RunRef,
    reason: Annotated[
        str | None, typer.Option("--reason", help="Why, for those who look at it later.")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
) -> None:
    """Delete a run that has ended: it shows nowhere any more, and counts in no leaderboard."""
    if not yes:
        if not sys.stdin.isatty():
            raise InvalidInputError(f"nobody can be asked; type: assay run delete {run} --yes")
        typer.confirm(f"Delete {run} with its results and artifacts?", abort=True, err=True)
    with open_client(context) as client:
        client.delete_run(run, reason=reason)
        show(lambda _: deleted(run))


def _follow(client: AssayClient, ref: str, as_json: bool, *, is_new: bool) -> None:
    last: RunDetail | None = None
    try:
        with Meter("results", silent=as_json) as meter:
            for last in watch_run(client, ref, is_new=is_new):
                meter.update(
                    f"{last.name} {last.status.value}",
                    last.ingested_results,
                    last.expected_results,
                    _tally(last),
                )
    except KeyboardInterrupt:
        name = ref if last is None else last.name
        raise InterruptedByUserError(f"the run goes on; assay run watch {name}") from None
    if last is None:
        return
    answer(last, as_json, run_page)
    if last.status is not RunStatus.FINISHED:
        raise typer.Exit(1)


def _tally(run: RunDetail) -> str:
    counts = {
        "passed": sum(agent.passed for agent in run.agents),
        "failed": sum(agent.failed for agent in run.agents),
        "errored": sum(agent.errored for agent in run.agents),
    }
    tally = ", ".join(f"{number:,} {name}" for name, number in counts.items() if number)
    paused = ", paused" if run.pauses else ""
    return f"{tally}{paused}{left(run)}".removeprefix(", ")


def _request(file: Path, environment: str | None, secrets_file: str | None) -> SubmitRun:
    text = _read(file)
    try:
        config = parse_run_config_toml(text)
    except InvalidRunConfigError as error:
        count = len(error.issues)
        raise InvalidInputError(
            f"{file}: {count} mistake{'' if count == 1 else 's'}", issues=error.issues
        ) from error
    given = {} if secrets_file is None else _given_secrets(secrets_file)
    return SubmitRun(
        config=tomllib.loads(text),
        environment=environment,
        secrets=resolve_run_secrets(config.secrets.required, given, os.environ),
    )


def _given_secrets(secrets_file: str) -> dict[str, str]:
    if secrets_file == "-":
        return parse_dotenv(sys.stdin.read(), "stdin")
    return parse_dotenv(_read(Path(secrets_file)), secrets_file)


def _read(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise InvalidInputError(f"{file} is not text in UTF-8") from None
    except OSError as error:
        raise InvalidInputError(f"{file} cannot be read: {error.strerror}") from error
