"""Benchmark events to the catalogue that people see: benchmarks and their task lists."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Table, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection

from assay_contracts.benchmark_events import (
    BenchmarkAdded,
    BenchmarkEvent,
    BenchmarkRemoved,
    BenchmarkSynced,
    BenchmarkSyncFailed,
    BenchmarkSyncRequested,
    BenchmarkSyncStarted,
    BenchmarkTasksSynced,
    TasksSyncedData,
)
from assay_contracts.values import BenchmarkRules, SyncStatus
from assay_kernel.projection import Events, Projection
from registry_sync.tables import benchmarks, tasks


class CatalogueProjection(Projection):
    """`benchmarks` and `tasks`. Task lists of earlier versions stay: runs are pinned to them."""

    name = "catalogue"
    stream = BenchmarkEvent.stream
    subjects: Sequence[str] = ("benchmarks.>",)
    tables: Sequence[Table] = (benchmarks, tasks)

    async def apply(self, connection: AsyncConnection, events: Events) -> None:
        """Write the rows that follow from `events`."""
        for stored in events:
            match stored.event:
                case BenchmarkAdded() as event:
                    await connection.execute(
                        insert(benchmarks)
                        .values(_added(event) | {"sequence": stored.sequence})
                        .on_conflict_do_nothing()
                    )
                case BenchmarkTasksSynced() as event:
                    await _insert_tasks(connection, event)
                    await _change(
                        connection,
                        event,
                        stored.sequence,
                        synced_task_count=event.data.first_position + len(event.data.tasks),
                        syncing_task_count=event.data.task_count,
                    )
                case BenchmarkEvent() as event:
                    await _change(connection, event, stored.sequence, **_changes(event))
                case _:
                    pass

    async def react(self, connection: AsyncConnection, events: Events) -> None:
        """Nothing follows but rows; the worker looks for what is pending."""


def _added(event: BenchmarkAdded) -> dict[str, Any]:
    data = event.data
    return {
        "id": event.benchmark,
        "workspace": event.workspace,
        "name": data.name,
        "description": data.description,
        "source": data.source.model_dump(mode="json"),
        "source_type": data.source_type.value,
        "added_at": event.occurred_at,
        "added_by": event.actor,
        "removed": False,
        "sync_status": SyncStatus.PENDING.value,
        "synced_task_count": 0,
        "rules": BenchmarkRules().model_dump(),
        "task_sets": [],
    }


def _changes(event: BenchmarkEvent) -> dict[str, Any]:
    match event:
        case BenchmarkSyncRequested():
            return {"sync_status": SyncStatus.PENDING.value, "sync_error": None}
        case BenchmarkSyncStarted(data=data):
            return {
                "sync_status": SyncStatus.SYNCING.value,
                "sync_error": None,
                "syncing": data.sync,
                "syncing_task_count": data.task_count,
                "synced_task_count": 0,
            }
        case BenchmarkSynced(data=data):
            return {
                "sync_status": SyncStatus.READY.value,
                "sync": data.sync,
                "version": data.version,
                "digest": data.digest,
                "key": data.key,
                "task_count": data.task_count,
                "synced_task_count": data.task_count,
                "source_url": data.source_url,
                "rules": data.rules.model_dump(),
                "task_sets": [one.model_dump(mode="json") for one in data.task_sets],
                **({"description": data.description} if data.description else {}),
            }
        case BenchmarkSyncFailed(data=data):
            return {"sync_status": SyncStatus.FAILED.value, "sync_error": data.reason}
        case BenchmarkRemoved():
            return {"removed": True}
        case _:
            raise TypeError(f"{event.type} changes no benchmark")


async def _change(
    connection: AsyncConnection, event: BenchmarkEvent, sequence: int, **values: object
) -> None:
    await connection.execute(
        update(benchmarks)
        .where(benchmarks.c.id == event.benchmark)
        .values(sequence=sequence, **values)
    )


async def _insert_tasks(connection: AsyncConnection, event: BenchmarkTasksSynced) -> None:
    data: TasksSyncedData = event.data
    rows = [
        {
            "sync": data.sync,
            "position": data.first_position + offset,
            "benchmark": event.benchmark,
            "name": task.name,
            "category": task.category,
            "difficulty": task.difficulty,
            "location": task.location and task.location.model_dump(mode="json"),
            "digest": task.digest,
            "origin": task.origin,
            "unavailable": task.unavailable,
        }
        for offset, task in enumerate(data.tasks)
    ]
    if rows:
        await connection.execute(insert(tasks).on_conflict_do_nothing(), rows)
