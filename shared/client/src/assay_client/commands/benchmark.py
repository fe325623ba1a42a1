"""`assay benchmark`: the benchmarks of a workspace."""

from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

import typer

from assay_client.api import AssayClient
from assay_client.commands.options import (
    BenchmarkRef,
    Json,
    Limit,
    Offset,
    Wait,
    new_commands,
    open_client,
)
from assay_client.errors import AssayError, InterruptedByUserError
from assay_client.render.benchmarks import benchmark_list, benchmark_page, task_list
from assay_client.render.meter import Meter
from assay_client.render.output import Frame, View, answer, show, text, write_json
from assay_client.render.runs import run_list
from assay_client.render.standings import leaderboard
from assay_client.watching import watch_sync
from assay_contracts.http import AddBenchmark, BenchmarkDetail, BenchmarkEntry
from assay_contracts.values import (
    BenchmarkSource,
    FolderSource,
    GitSource,
    RegistrySource,
    SyncStatus,
)

commands = new_commands("Add, list, show, synchronise and remove benchmarks.")

_RUNS_SHOWN = 10


class SyncFailedError(AssayError):
    """A benchmark's task list could not be read."""

    code = "SYNC_FAILED"


@commands.command("list")
def list_benchmarks(
    context: typer.Context, limit: Limit = 50, offset: Offset = 0, as_json: Json = False
) -> None:
    """List the benchmarks of the workspace."""
    with open_client(context) as client:
        answer(client.benchmarks(limit=limit, offset=offset), as_json, benchmark_list)


@commands.command()
def add(
    context: typer.Context,
    *,
    dataset: Annotated[
        str | None,
        typer.Argument(metavar="NAME[@VERSION]", help="A dataset of a Harbor registry."),
    ] = None,
    registry: Annotated[
        str | None,
        typer.Option("--registry", metavar="URL|PATH", help="A registry other than Harbor's own."),
    ] = None,
    git: Annotated[
        str | None,
        typer.Option("--git", metavar="URL", help="A git repository with Harbor tasks."),
    ] = None,
    ref: Annotated[
        str | None, typer.Option("--ref", help="Branch, tag or commit of the repository.")
    ] = None,
    path: Annotated[
        str | None,
        typer.Option("--path", metavar="FOLDER", help="Folder of the tasks in the repository."),
    ] = None,
    folder: Annotated[
        str | None,
        typer.Option(
            "--folder", metavar="PATH", help="A folder of Harbor tasks on the server's disk."
        ),
    ] = None,
    name: Annotated[
        str | None, typer.Option("--as", metavar="NAME", help="Name it is to have here.")
    ] = None,
    wait: Wait = True,
    as_json: Json = False,
) -> None:
    """Add a benchmark from a registry, a git repository or a folder."""
    source = _source(dataset=dataset, registry=registry, git=git, ref=ref, path=path, folder=folder)
    with open_client(context) as client:
        added = client.add_benchmark(AddBenchmark(source=source, name=name))
        _follow(client, added, wait, as_json)


@commands.command()
def info(
    context: typer.Context,
    benchmark: BenchmarkRef,
    tasks: Annotated[bool, typer.Option("--tasks", help="List every task too.")] = False,
    as_json: Json = False,
) -> None:
    """Show a benchmark: its rules, its leaderboard and its newest runs."""
    with open_client(context) as client:
        found = client.benchmark(benchmark)
        if as_json:
            write_json(found)
            return
        show(lambda frame: benchmark_page(found, frame))
        if tasks:
            show(lambda frame: task_list(found, frame))
        if found.run_count > 0:
            ref = str(found.id)
            board, runs = client.leaderboard(ref), client.runs(limit=_RUNS_SHOWN, benchmark=ref)
            show(lambda frame: _under("Leaderboard", leaderboard(board, frame)))
            show(lambda frame: _under("Runs", run_list(runs, frame)))


@commands.command()
def sync(
    context: typer.Context, benchmark: BenchmarkRef, wait: Wait = True, as_json: Json = False
) -> None:
    """Read a benchmark's task list again, for a newer version or after a failure."""
    with open_client(context) as client:
        _follow(client, client.sync_benchmark(benchmark), wait, as_json)


@commands.command()
def remove(context: typer.Context, benchmark: BenchmarkRef, as_json: Json = False) -> None:
    """Remove a benchmark from the workspace; its runs stay."""
    with open_client(context) as client:
        client.remove_benchmark(benchmark)
    _tell_removed(benchmark, as_json)


def _tell_removed(benchmark: str, as_json: bool) -> None:
    if as_json:
        write_json({"removed": benchmark})
    else:
        show(lambda _: [text(f"Removed {benchmark}; its runs stay")])


def _under(title: str, view: View) -> View:
    yield text(f"\n{title}", "bold")
    yield from view


def _follow(client: AssayClient, entry: BenchmarkEntry, wait: bool, as_json: bool) -> None:
    if not wait:
        answer(entry, as_json, _accepted)
        return
    found: BenchmarkDetail | None = None
    try:
        with Meter("tasks", silent=as_json) as meter:
            for found in watch_sync(client, entry):
                meter.update(
                    f"{found.name} {found.sync_status.value}",
                    found.synced_task_count,
                    found.syncing_task_count,
                )
    except KeyboardInterrupt:
        raise InterruptedByUserError("the server goes on reading the task list") from None
    if found is None or found.sync_status is SyncStatus.FAILED:
        reason = (found.sync_error if found else None) or "no reason given"
        raise SyncFailedError(
            f"the task list of {entry.name} could not be read",
            f"{reason}\ntry again with: assay benchmark sync {entry.id}",
            details={"benchmark": str(entry.id), "reason": reason},
        )
    answer(found, as_json, _ready)


def _accepted(entry: BenchmarkEntry, _: Frame) -> View:
    yield text(f"{entry.name}: the task list is being read")
    yield text(f"  see how far it is   assay benchmark info {entry.id}")


def _ready(found: BenchmarkDetail, _: Frame) -> View:
    tasks = 0 if found.task_count is None else found.task_count
    yield text(f"{found.name} is ready: {tasks:,} tasks, version {found.version}")
    yield text(f"  key      {found.key}")
    yield text(f"  digest   {found.digest}")


def _source(
    *,
    dataset: str | None,
    registry: str | None,
    git: str | None,
    ref: str | None,
    path: str | None,
    folder: str | None,
) -> BenchmarkSource:
    if sum(given is not None for given in (dataset, git, folder)) != 1:
        raise typer.BadParameter("give exactly one of NAME[@VERSION], --git URL and --folder PATH")
    if registry is not None and dataset is None:
        raise typer.BadParameter("--registry goes with NAME[@VERSION] alone")
    if git is None and (ref is not None or path is not None):
        raise typer.BadParameter("--ref and --path go with --git URL alone")
    if git is not None:
        return GitSource(url=_repository(git), ref=ref, path=path)
    if folder is not None:
        return FolderSource(path=_whole_path(folder))
    name, at, version = (dataset or "").rpartition("@")
    if at and not (name and version):
        raise typer.BadParameter("NAME[@VERSION] lacks a name or a version")
    return RegistrySource(
        dataset=name if at else version,
        version=version if at else None,
        registry=None if registry is None else _registry(registry),
    )


def _registry(given: str) -> str:
    """An address as it is, or a whole path."""
    return _address("--registry", given) if "://" in given else _whole_path(given)


def _repository(given: str) -> str:
    """An address as it is, or a whole path; a colon before any slash is `host:path`, as in git."""
    if "://" in given:
        return _address("--git", given)
    is_remote = ":" in given.partition("/")[0] and not Path(given).exists()
    return given if is_remote else _whole_path(given)


def _address(option: str, given: str) -> str:
    """An address that may be kept for ever, and so must hold no password."""
    parts = urlsplit(given)
    if parts.password or (parts.username and parts.scheme in {"http", "https"}):
        raise typer.BadParameter(f"the address of {option} must not carry a user or a password")
    return given


def _whole_path(given: str) -> str:
    """A path that means the same in the server's working directory as in ours."""
    return str(Path(given).expanduser().resolve())
