"""Where the agents of a run stand on their benchmark's leaderboard."""

from uuid import UUID

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncConnection

from gateway.read_models import standings


async def ranks_of_run(
    connection: AsyncConnection, workspace: str, run: UUID
) -> dict[int, int | None]:
    """The rank by pass@1 of each agent of the run that stands for its entrant."""
    found = await connection.execute(
        select(standings.c.agent, standings.c.standing["rank"].as_integer().label("rank")).where(
            standings.c.workspace == workspace,
            standings.c.run == run,
            standings.c.metric == "pass@1",
        )
    )
    return {row.agent: row.rank for row in found}
