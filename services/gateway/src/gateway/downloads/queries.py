"""What is read of the grader's results for a download, in batches over one state of the tables."""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from sqlalchemy import BigInteger, RowMapping, Subquery, and_, cast, func, select
from sqlalchemy.ext.asyncio import AsyncConnection

from assay_contracts.http import DownloadTotals
from gateway.read_models import results, tasks, tries

_BATCH_ROWS = 1_000


@dataclass(frozen=True)
class SlotArtifacts:
    """The list of the files that a slot's result left: a blob by its hash, and their number."""

    slot: UUID
    sha256: str
    files: int


def _shown(run: UUID) -> Subquery:
    """The try that stands for each slot, as the grader's results name it."""
    same = [results.c[name] == tries.c[name] for name in ("slot", "try_number", "delivery")]
    return select(tries).join(results, and_(*same)).where(results.c.run == run).subquery()


async def result_batches(
    connection: AsyncConnection, run: UUID, sync: UUID
) -> AsyncIterator[Sequence[RowMapping]]:
    """Every result by agent, task and attempt, with its task's category and difficulty."""
    shown = _shown(run)
    found = await connection.stream(
        select(shown, tasks.c.category, tasks.c.difficulty)
        .outerjoin(tasks, and_(tasks.c.sync == sync, tasks.c.name == shown.c.task))
        .order_by(shown.c.agent, shown.c.task, shown.c.attempt)
    )
    async for batch in found.mappings().partitions(_BATCH_ROWS):
        yield batch


async def slots_with_artifacts(
    connection: AsyncConnection, run: UUID, *, after: UUID | None, limit: int | None
) -> list[SlotArtifacts]:
    """Slots whose result left files, by id, from after one of them; at most `limit`, if any."""
    shown = _shown(run)
    wanted = select(shown.c.slot, shown.c.artifacts).where(shown.c.artifacts.is_not(None))
    if after is not None:
        wanted = wanted.where(shown.c.slot > after)
    found = await connection.execute(wanted.order_by(shown.c.slot).limit(limit))
    return [
        SlotArtifacts(row.slot, row.artifacts["sha256"], row.artifacts["files"]) for row in found
    ]


async def artifacts_of_slot(
    connection: AsyncConnection, run: UUID, slot: UUID
) -> SlotArtifacts | None:
    """The list of what one slot's result left; None where it left nothing."""
    shown = _shown(run)
    found = (
        await connection.execute(
            select(shown.c.artifacts).where(shown.c.slot == slot, shown.c.artifacts.is_not(None))
        )
    ).first()
    if found is None:
        return None
    return SlotArtifacts(slot, found.artifacts["sha256"], found.artifacts["files"])


async def artifact_totals(connection: AsyncConnection, run: UUID) -> DownloadTotals:
    """How many files the results of a run left, and their bytes."""
    shown = _shown(run)

    def total(name: str) -> Any:
        return func.coalesce(func.sum(cast(shown.c.artifacts[name].astext, BigInteger)), 0)

    found = (await connection.execute(select(total("files"), total("bytes")))).one()
    return DownloadTotals(files=int(found[0]), bytes=int(found[1]))
