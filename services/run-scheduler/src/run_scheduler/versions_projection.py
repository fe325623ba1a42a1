"""Benchmark events to pinned task lists, as far as handing out work needs them."""

from collections.abc import Sequence

from sqlalchemy import Table, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection

from assay_contracts.benchmark_events import (
    BenchmarkEvent,
    BenchmarkSynced,
    BenchmarkSyncFailed,
    BenchmarkSyncStarted,
    BenchmarkTasksSynced,
)
from assay_kernel.projection import Events, Projection
from run_scheduler.tables import version_tasks, versions


class VersionsProjection(Projection):
    """`versions` and `version_tasks`: one row a synchronisation, one row a task of it."""

    name = "versions"
    stream = BenchmarkEvent.stream
    subjects: Sequence[str] = ("benchmarks.>",)
    tables: Sequence[Table] = (versions, version_tasks)

    async def apply(self, connection: AsyncConnection, events: Events) -> None:
        """Write the rows that follow from `events`."""
        for stored in events:
            match stored.event:
                case BenchmarkSyncStarted(benchmark=benchmark, data=data):
                    await connection.execute(
                        insert(versions)
                        .values(sync=data.sync, benchmark=benchmark, complete=False)
                        .on_conflict_do_nothing()
                    )
                case BenchmarkTasksSynced(data=data):
                    rows = [
                        {
                            "sync": data.sync,
                            "position": data.first_position + offset,
                            "name": task.name,
                            "location": task.location and task.location.model_dump(mode="json"),
                            "digest": task.digest,
                            "unavailable": task.unavailable,
                        }
                        for offset, task in enumerate(data.tasks)
                    ]
                    if rows:
                        await connection.execute(
                            insert(version_tasks).on_conflict_do_nothing(), rows
                        )
                case BenchmarkSynced(data=data):
                    await connection.execute(
                        update(versions).where(versions.c.sync == data.sync).values(complete=True)
                    )
                case BenchmarkSyncFailed(data=data):
                    await connection.execute(
                        update(versions)
                        .where(versions.c.sync == data.sync)
                        .values(failed=data.reason)
                    )
                case _:
                    pass

    async def react(self, connection: AsyncConnection, events: Events) -> None:
        """Nothing follows but rows."""
