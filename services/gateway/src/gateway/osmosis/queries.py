"""What the client is told besides what our own routes tell: ranks of a run, and who people are."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from uuid import UUID

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncConnection

from gateway.read_models import standings
from gateway.tables import users


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


@dataclass(frozen=True)
class People:
    """What users are called, and their e-mail addresses; services are none, and have a name."""

    names: Mapping[str, str]
    addresses: Mapping[str, str]

    def name(self, user: str) -> str:
        """What somebody is called."""
        return self.names.get(user, user)


async def people_called(connection: AsyncConnection, actors: Iterable[str]) -> People:
    """The users among those who did something."""
    found = await connection.execute(
        select(users.c.name, users.c.display_name, users.c.email).where(
            users.c.name.in_(set(actors))
        )
    )
    rows = list(found)
    return People(
        names={row.name: row.display_name for row in rows},
        addresses={row.name: row.email for row in rows},
    )
