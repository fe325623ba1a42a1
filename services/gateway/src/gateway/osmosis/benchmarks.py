"""Benchmarks for the client: the list, and one with its tasks and its leaderboard."""

from collections.abc import Sequence

from fastapi import APIRouter, Request

from assay_contracts.http import BenchmarkDetail, BenchmarkEntry, Standing, TaskRow
from gateway import benchmarks
from gateway.desk import Desk, DeskNow
from gateway.osmosis import wire
from gateway.osmosis.measures import amount, curve, known_rate
from gateway.osmosis.paging import Limit, paging
from gateway.osmosis.queries import People, people_called
from gateway.osmosis.scope import Reading
from gateway.paging import Offset

router = APIRouter(prefix="/benchmarks")


@router.get("")
async def list_all(
    asking: Reading, desk: DeskNow, limit: Limit = 50, offset: Offset = 0
) -> wire.Benchmarks:
    """`osmosis benchmark list`."""
    found = await benchmarks.list_all(asking, desk, limit=limit, offset=offset)
    people = await _adders(found.items, desk)
    return wire.Benchmarks(benchmarks=[_entry(one, people) for one in found.items], **paging(found))


@router.get("/{ref:path}")
async def show(ref: str, request: Request, asking: Reading, desk: DeskNow) -> wire.ShownBenchmark:
    """`osmosis benchmark info`."""
    detail = await benchmarks.show(ref, asking, desk)
    board = await benchmarks.leaderboard(str(detail.id), request, asking, desk)
    people = await _adders([detail], desk)
    return wire.ShownBenchmark(
        benchmark=_detail(detail, people), leaderboard=[_standing(one) for one in board.standings]
    )


async def _adders(entries: Sequence[BenchmarkEntry], desk: Desk) -> People:
    async with desk.acting() as connection:
        return await people_called(connection, [one.added_by for one in entries])


def _entry(entry: BenchmarkEntry, people: People) -> wire.Benchmark:
    expected = entry.task_count if entry.task_count is not None else entry.syncing_task_count
    return wire.Benchmark(
        id=entry.id,
        name=entry.name,
        description=entry.description or None,
        source_type=entry.source_type,
        source_ref=entry.key,
        source_url=entry.source_url,
        task_count=expected or 0,
        category_count=entry.category_count or 0,
        task_sets=[wire.TaskSet(**one.model_dump()) for one in entry.task_sets],
        sync_status=entry.sync_status,
        synced_task_count=entry.synced_task_count,
        sync_error=entry.sync_error,
        run_count=entry.run_count,
        running_count=entry.running_count,
        last_run_at=entry.last_run_at,
        last_run_status=entry.last_run_status,
        last_run_name=entry.last_run_name,
        creator_name=people.name(entry.added_by),
    )


def _detail(detail: BenchmarkDetail, people: People) -> wire.BenchmarkDetail:
    rules = detail.rules
    return wire.BenchmarkDetail(
        **_entry(detail, people).model_dump(),
        runner_family=rules.runner_family,
        supports_harness=rules.supports_harness,
        requires_harness=rules.requires_harness,
        default_harness=rules.default_harness,
        requires_judge_model=rules.requires_judge_model,
        requires_judge_api_key=rules.requires_judge_api_key,
        judge_model_default=rules.judge_model_default,
        pass_threshold=rules.pass_threshold,
        categories=[wire.Category(**one.model_dump()) for one in detail.categories],
        tasks=[_task(one) for one in detail.tasks if one.unavailable is None],
        unavailable_tasks=_unavailable(detail.tasks),
    )


def _task(task: TaskRow) -> wire.Task:
    return wire.Task(name=task.name, category=task.category, difficulty=task.difficulty)


def _unavailable(tasks: Sequence[TaskRow]) -> wire.UnavailableTasks | None:
    reasons = dict.fromkeys(one.unavailable for one in tasks if one.unavailable is not None)
    if not reasons:
        return None
    return wire.UnavailableTasks(
        reason="; ".join(reasons),
        tasks=[_task(one) for one in tasks if one.unavailable is not None],
    )


def _standing(standing: Standing) -> wire.Standing:
    return wire.Standing(
        rank=standing.rank,
        tied=standing.tied,
        harness=standing.harness,
        model=standing.model,
        task_set=standing.task_set,
        pass_at_1=known_rate(standing.pass_at_1),
        pass_at_k=curve(standing.pass_at_k),
        cost_per_task=amount(standing.cost_per_task),
        mean_duration_seconds=amount(standing.seconds_per_task),
        tokens_per_task=amount(standing.tokens_per_task),
        run=wire.RunBehind(id=standing.run_id, name=standing.run_name),
    )
