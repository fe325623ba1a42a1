"""Benchmarks and their leaderboards: list, add, show, synchronise, remove, rank."""

from fastapi import APIRouter, Depends, Request
from sqlalchemy import RowMapping
from sqlalchemy.ext.asyncio import AsyncConnection

from assay_contracts.http import (
    AddBenchmark,
    BenchmarkDetail,
    BenchmarkEntry,
    Leaderboard,
    Metric,
    Page,
    PairComparison,
)
from gateway import answers, domain
from gateway import benchmark_queries as queries
from gateway.access import Benchmarking, Reading
from gateway.caching import do_not_keep, kept_with
from gateway.desk import Desk, DeskNow
from gateway.freshness import ReadModel
from gateway.identities import work_id
from gateway.moments import stamp
from gateway.paging import Limit, Offset, page
from gateway.problems import ProblemError, conflict, did_you_mean, invalid, not_found
from gateway.standings import AsOf, Margin, compare_entrants, standings_as_of

router = APIRouter(prefix="/benchmarks", tags=["benchmarks"])


async def find(connection: AsyncConnection, workspace: str, ref: str) -> RowMapping:
    """A benchmark by key, name or id; else a problem that names what comes near."""
    row = await queries.find_benchmark(connection, workspace, ref)
    if row is None:
        raise await unknown(connection, workspace, ref)
    return row


async def unknown(connection: AsyncConnection, workspace: str, ref: str) -> ProblemError:
    """The problem that there is no such benchmark, with the names that come near."""
    known = await queries.names(connection, workspace)
    return not_found(f"there is no benchmark {ref} in this workspace{did_you_mean(ref, known)}")


@router.get(
    "",
    summary="List the benchmarks of the workspace",
    dependencies=[Depends(kept_with(ReadModel.CATALOGUE, ReadModel.RUNS))],
)
async def list_all(
    asking: Reading, desk: DeskNow, limit: Limit = 50, offset: Offset = 0
) -> Page[BenchmarkEntry]:
    """The workspace's own and those of the managed catalogue, the newest first."""
    async with desk.reading() as connection:
        items, total = await queries.list_benchmarks(
            connection, asking.workspace, limit=limit, offset=offset
        )
    return page(items, total, offset)


@router.post("", status_code=201, summary="Add a benchmark")
async def add(body: AddBenchmark, asking: Benchmarking, desk: DeskNow) -> BenchmarkEntry:
    """Add a dataset of a registry, a git repository or a folder; its tasks are read next."""
    name = body.name or domain.default_name(body.source)
    if issues := list(domain.adding_issues(name, body.source)):
        raise invalid(issues)
    event = domain.add(
        work_id("benchmark"),
        name,
        body.source,
        stamp(asking.user),
        asking.workspace,
        asking.request_id,
    )
    async with desk.alone_with_name(asking.workspace, name):
        async with desk.reading() as connection:
            there = await queries.find_benchmark(connection, asking.workspace, name)
            if there is not None and there["id"] != event.benchmark:
                raise conflict(f"a benchmark called {name} is there already; choose another name")
        shown = await desk.decide_on_benchmark(asking.workspace, event.benchmark, lambda _: event)
    if not shown:
        return answers.added(event)
    return await _entry(asking.workspace, str(event.benchmark), desk)


@router.get(
    "/{ref:path}/leaderboard",
    summary="Show a benchmark's leaderboard",
    dependencies=[Depends(kept_with(ReadModel.CATALOGUE, ReadModel.STANDINGS))],
)
async def leaderboard(
    ref: str,
    request: Request,
    asking: Reading,
    desk: DeskNow,
    metric: Metric = "pass@1",
    as_of: AsOf = None,
) -> Leaderboard:
    """The standings by a metric, and every agent that does not rank, with the reason.

    `as_of` asks for those of a past moment (with a time zone), or of a sequence of the stream.
    """
    async with desk.reading() as connection:
        row = await find(connection, asking.workspace, ref)
        if as_of is None:
            return await queries.read_leaderboard(connection, asking.workspace, row, metric)
    do_not_keep(request)  # the leaderboard service folds it, from the stream
    return await standings_as_of(as_of, row, metric, asking.workspace, desk)


@router.get("/{ref:path}/compare", summary="Compare two entrants of a leaderboard")
async def compare(
    ref: str,
    first: str,
    second: str,
    asking: Reading,
    desk: DeskNow,
    metric: Metric = "pass@1",
    margin: Margin = None,
) -> PairComparison:
    """Paired by task: the difference, whether the first is no worse by more than a margin, the
    tasks that each won, and what it would take to separate them.

    An entrant is `model (harness)`, the model, the harness, or the name of the run behind it.
    """
    async with desk.reading() as connection:
        row = await find(connection, asking.workspace, ref)
        board = await queries.read_leaderboard(connection, asking.workspace, row, metric)
    return await compare_entrants(board, first, second, margin, asking.workspace, desk)


@router.post("/{ref:path}/sync", summary="Read a benchmark's tasks again")
async def sync(ref: str, asking: Benchmarking, desk: DeskNow) -> BenchmarkEntry:
    """Read the task list again: after a failure, or for a new version."""
    async with desk.reading() as connection:
        row = await find(connection, asking.workspace, ref)
    await desk.decide_on_benchmark(
        row["workspace"],
        row["id"],
        lambda state: domain.request_sync(
            state, row["id"], row["workspace"], stamp(asking.user), asking.request_id
        ),
    )
    return await _entry(asking.workspace, str(row["id"]), desk)


@router.get(
    "/{ref:path}",
    summary="Show a benchmark",
    dependencies=[Depends(kept_with(ReadModel.CATALOGUE, ReadModel.RUNS))],
)
async def show(ref: str, asking: Reading, desk: DeskNow) -> BenchmarkDetail:
    """A benchmark with its rules and its pinned task list."""
    async with desk.reading() as connection:
        row = await find(connection, asking.workspace, ref)
        return await queries.describe_benchmark(connection, asking.workspace, row)


@router.delete("/{ref:path}", status_code=204, summary="Remove a benchmark")
async def remove(ref: str, asking: Benchmarking, desk: DeskNow) -> None:
    """Remove a benchmark from the workspace; its runs stay."""
    async with desk.reading() as connection:
        row = await find(connection, asking.workspace, ref)
        running = await queries.open_runs(connection, row["id"])
    await desk.decide_on_benchmark(
        row["workspace"],
        row["id"],
        lambda state: domain.remove(
            state, row["id"], row["workspace"], running, stamp(asking.user), asking.request_id
        ),
    )


async def _entry(workspace: str, ref: str, desk: Desk) -> BenchmarkEntry:
    async with desk.reading() as connection:
        row = await find(connection, workspace, ref)
        detail = await queries.describe_benchmark(connection, workspace, row)
    return BenchmarkEntry.model_validate(
        {name: getattr(detail, name) for name in BenchmarkEntry.model_fields}
    )
