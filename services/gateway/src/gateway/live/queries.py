"""What a feed asks the read models."""

from uuid import UUID

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncConnection

from gateway.read_models import runs


async def runs_on(connection: AsyncConnection, workspace: str, benchmark: UUID) -> set[str]:
    """The ids of a workspace's runs on a benchmark."""
    found = await connection.scalars(
        select(runs.c.id).where(runs.c.workspace == workspace, runs.c.benchmark == benchmark)
    )
    return {str(one) for one in found}
