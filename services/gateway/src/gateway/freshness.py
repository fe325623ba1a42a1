"""How far every read model is, asked once for all requests that wait to know.

A kept answer may be given only while the rows that it was made from are still the newest. Whoever
asks is told of a state that was read *after* the question, so that nobody is shown less than what
was there when the request came, whichever process wrote it. All that ask while one reading is under
way share the next one: the busier the gateway, the less each of them costs.
"""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, cast

import psycopg
import structlog
from psycopg.rows import TupleRow
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from assay_kernel.database import is_outage

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


_MARK = (
    "(SELECT sequence FROM {0}.checkpoints WHERE projection = '{1}'), "
    "to_regclass('{0}.{2}')::oid::bigint"
)
_QUESTION = "SELECT " + ", ".join(_MARK.format(*model.value) for model in ReadModel)
"""All marks in one statement, and so in one state of the database."""

_LINGER_SECONDS = 1.0
"""How long the connection is kept after the last question."""


class Freshness:
    """The marks of all read models."""

    def __init__(self, reader: AsyncEngine) -> None:
        self._reader = reader.execution_options(isolation_level="AUTOCOMMIT")
        self._next: asyncio.Future[Marks | None] | None = None
        self._asked = asyncio.Event()
        self._answering: asyncio.Task[None] | None = None

    async def now(self) -> Marks | None:
        """The marks, as they are at some moment after this call.

        None where the database does not answer, or a service has yet to make its tables: then
        nothing can be kept, and whoever reads meets the same trouble.
        """
        if self._next is None:
            self._next = asyncio.get_running_loop().create_future()
            self._asked.set()
        if self._answering is None or self._answering.done():
            self._answering = asyncio.create_task(self._answer())
        return await asyncio.shield(self._next)

    async def _answer(self) -> None:
        """Answer all that ask, over one connection, until nobody has asked for a while."""
        try:
            async with self._reader.connect() as connection:
                raw = await connection.get_raw_connection()
                driver = cast("psycopg.AsyncConnection[TupleRow]", raw.driver_connection)
                while await self._is_asked():
                    await self._read(connection, driver)
        except Exception as error:
            if not is_outage(error):
                raise
            log.warning("read-models-unmarked", error=type(error).__name__)
        finally:
            self._tell(self._taken(), None)

    async def _read(
        self, connection: AsyncConnection, driver: "psycopg.AsyncConnection[TupleRow]"
    ) -> None:
        """Read the marks for all that have asked by now.

        Straight from the driver: everything between the two would cost more than the question.
        """
        waiting, marks = self._taken(), None
        try:
            row = await (await driver.execute(_QUESTION)).fetchone()
            marks = None if row is None else _marks(row)
        except psycopg.Error as error:
            log.warning("read-models-unmarked", error=type(error).__name__)
            if driver.broken:
                await connection.invalidate()
                raise
        finally:
            self._tell(waiting, marks)

    def _taken(self) -> "asyncio.Future[Marks | None] | None":
        """Those that wait; whoever asks from now on waits for the next reading."""
        waiting, self._next = self._next, None
        self._asked.clear()
        return waiting

    def _tell(self, waiting: "asyncio.Future[Marks | None] | None", marks: Marks | None) -> None:
        if waiting is not None and not waiting.done():
            waiting.set_result(marks)

    async def _is_asked(self) -> bool:
        """Whether somebody asks within a while."""
        try:
            async with asyncio.timeout(_LINGER_SECONDS):
                await self._asked.wait()
        except TimeoutError:
            return False
        return True


def _marks(row: Sequence[Any]) -> Marks:
    return {
        model: Mark(row[2 * place], row[2 * place + 1]) for place, model in enumerate(ReadModel)
    }


def of(marks: Marks, models: Iterable[ReadModel]) -> tuple[Mark, ...]:
    """The marks of some read models, to be compared."""
    return tuple(marks[model] for model in models)
