"""How far every read model is, asked once for all requests that wait to know.

A kept answer may be given only while the rows that it was made from are still the newest. Whoever
asks is told of a state that was read *after* the question, so that nobody is shown less than what
was there when the request came, whichever process wrote it. All that ask while one reading is under
way share the next one: the busier the gateway, the less each of them costs.
"""

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum

import structlog
from sqlalchemy import TextClause, text
from sqlalchemy.ext.asyncio import AsyncEngine

from assay_kernel.database import is_outage
from gateway.problems import not_yet_there

log = structlog.get_logger(__name__)


class ReadModel(Enum):
    """A read model: its schema, its projection, and one of its tables."""

    CATALOGUE = ("registry_sync", "catalogue", "benchmarks")
    RUNS = ("run_scheduler", "runs", "runs")
    GRADES = ("grader", "grades", "tries")
    STANDINGS = ("leaderboard", "standings", "standings")


@dataclass(frozen=True)
class Mark:
    """Where a read model stands: its checkpoint, and which table serves (a replay swaps them)."""

    sequence: int | None
    table: int | None


Marks = Mapping[ReadModel, Mark]


def _question() -> TextClause:
    """All marks in one statement, and so in one state of the database."""
    columns = [
        f"(SELECT sequence FROM {schema}.checkpoints WHERE projection = '{projection}'), "  # noqa: S608  names of ours
        f"CAST(CAST(to_regclass('{schema}.{table}') AS oid) AS bigint)"
        for schema, projection, table in (model.value for model in ReadModel)
    ]
    return text(f"SELECT {', '.join(columns)}")


class Freshness:
    """The marks of all read models."""

    def __init__(self, reader: AsyncEngine) -> None:
        self._reader = reader.execution_options(isolation_level="AUTOCOMMIT")
        self._question = _question()
        self._under_way: asyncio.Task[Marks | None] | None = None
        self._next: asyncio.Task[Marks | None] | None = None

    async def now(self) -> Marks | None:
        """The marks, as they are at some moment after this call.

        None where the database does not answer, or a service has yet to make its tables: then
        nothing can be kept, and whoever reads meets the same trouble.
        """
        if self._next is None:
            self._next = asyncio.create_task(self._read_after(self._under_way))
        return await asyncio.shield(self._next)

    async def _read_after(self, earlier: asyncio.Task[Marks | None] | None) -> Marks | None:
        if earlier is not None and not earlier.done():
            await asyncio.wait([earlier])
        self._under_way, self._next = self._next, None
        try:
            async with self._reader.connect() as connection:
                row = (await connection.execute(self._question)).one()
        except Exception as error:
            if not (is_outage(error) or not_yet_there(error)):
                raise
            log.warning("read-models-unmarked", error=type(error).__name__)
            return None
        return {
            model: Mark(row[2 * place], row[2 * place + 1]) for place, model in enumerate(ReadModel)
        }


def of(marks: Marks, models: Iterable[ReadModel]) -> tuple[Mark, ...]:
    """The marks of some read models, to be compared."""
    return tuple(marks[model] for model in models)
