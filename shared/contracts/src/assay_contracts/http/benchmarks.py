"""Benchmarks: adding them, listing them, one with its tasks."""

from datetime import datetime
from typing import Annotated
from uuid import UUID

from pydantic import Field

from assay_contracts.http.base import Request, Resource, with_example
from assay_contracts.values import (
    BenchmarkRules,
    BenchmarkSource,
    Difficulty,
    RunStatus,
    SourceType,
    SyncStatus,
)


class AddBenchmark(Request):
    """`POST /api/v1/benchmarks`: a name of its own (default: the source's) and a source."""

    model_config = with_example(
        source={"kind": "registry", "dataset": "terminal-bench/terminal-bench-2-1"},
        name="terminal-bench",
    )

    source: BenchmarkSource
    name: Annotated[str, Field(min_length=1, max_length=200)] | None = None


class TaskSetEntry(Resource):
    """A published subset of a benchmark."""

    name: str
    task_count: int
    recommended: bool
    description: str | None


class BenchmarkEntry(Resource):
    """A benchmark in a list. `task_count` is null until the task list is ready."""

    id: UUID
    name: str
    key: str
    description: str
    source_type: SourceType
    source: BenchmarkSource
    source_url: str | None
    version: str | None
    digest: str | None
    task_count: int | None
    category_count: int | None
    task_sets: list[TaskSetEntry]
    sync_status: SyncStatus
    synced_task_count: int
    syncing_task_count: int | None
    sync_error: str | None
    managed: bool
    added_at: datetime
    added_by: str
    run_count: int
    running_count: int
    last_run_name: str | None
    last_run_status: RunStatus | None
    last_run_at: datetime | None


class TaskRow(Resource):
    """A task of the pinned list; `unavailable` says why it cannot be run."""

    name: str
    category: str | None
    difficulty: Difficulty | None
    unavailable: str | None


class CategoryEntry(Resource):
    """A category with the number of its tasks."""

    name: str
    task_count: int


class BenchmarkDetail(BenchmarkEntry):
    """One benchmark with its rules, its full task list, and the tasks of each published set."""

    rules: BenchmarkRules
    tasks_of_sets: dict[str, list[str]] = Field(default_factory=dict)
    categories: list[CategoryEntry]
    tasks: list[TaskRow]
