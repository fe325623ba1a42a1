"""Running a person's query: alone in a session of its own, for one workspace, within limits.

What holds a query to its workspace is in the database (`sql_views`). Here it gets a fresh session
of the role `assay_sql`, which has no rights but to read the views, and nothing of which outlives
the query. It is declared as a cursor: PostgreSQL takes nothing but a single SELECT for that. The
server writes each row as JSON, so that a row which is too large is never sent.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

import orjson
import psycopg
import structlog
from psycopg.errors import QueryCanceled
from pydantic import SecretStr
from sqlalchemy import delete, func
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncEngine

from assay_contracts.http import SqlColumn, SqlQuery
from assay_contracts.problems import ProblemCode
from assay_contracts.run_config import ConfigIssue
from gateway.problems import ProblemError, unavailable
from gateway.sql_views import SCHEMA
from gateway.tables import sql_sessions

MAX_COLUMNS = 100
MAX_ROW_BYTES = 1024 * 1024
_BATCH = 50  # rows; all of them may be as large as they get
_WAIT_SECONDS = 5.0
_ENDED = "57P"
"""PostgreSQL's codes for a session that it ended, or a server that goes down."""

_DECLARED = 'DECLARE "asked" CURSOR FOR '

log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class SqlLimits:
    """What one query may take, in seconds, rows and bytes of rows, and how many may run at once."""

    seconds: float
    rows: int
    bytes: int
    at_once: int


@dataclass(frozen=True)
class SqlRows:
    """What a query gave: its columns, each row as a JSON list, and whether that is not all."""

    columns: Sequence[SqlColumn]
    rows: Sequence[bytes]
    truncated: bool

    def to_json(self) -> bytes:
        """A `SqlAnswer`; the rows stay as the server wrote them, so that no number changes."""
        columns = orjson.dumps([column.model_dump() for column in self.columns])
        truncated = b"true" if self.truncated else b"false"
        return b'{"columns":%b,"rows":[%b],"truncated":%b}' % (
            columns,
            b",".join(self.rows),
            truncated,
        )


class SqlDesk:
    """Runs queries, several at once."""

    def __init__(self, engine: AsyncEngine, address: SecretStr, limits: SqlLimits) -> None:
        """
        Args:
            engine: the gateway's own database, where it writes down which session asks for whom.
            address: of the same database, as `assay_sql`.
            limits: of each query.
        """
        self._engine = engine
        self._address = address
        self._limits = limits
        self._places = asyncio.Semaphore(limits.at_once)

    async def run(self, workspace: str, asked: SqlQuery) -> SqlRows:
        """The rows of a query, of one workspace.

        Raises:
            ProblemError: PostgreSQL refuses the query, or it takes too long.
        """
        if any("\0" in one for one in (asked.query, *asked.parameters) if isinstance(one, str)):
            raise _refused("the character NUL is in no text of the database")
        async with self._place():
            try:
                async with (
                    asyncio.timeout(self._limits.seconds),
                    self._session(workspace) as session,
                ):
                    return await self._rows(session, asked)
            except (TimeoutError, QueryCanceled) as error:
                raise self._too_slow() from error

    @asynccontextmanager
    async def _place(self) -> AsyncIterator[None]:
        try:
            async with asyncio.timeout(_WAIT_SECONDS):
                await self._places.acquire()
        except TimeoutError as error:
            raise unavailable("too many queries are running; try again in a moment") from error
        try:
            yield
        finally:
            self._places.release()

    @asynccontextmanager
    async def _session(self, workspace: str) -> AsyncIterator[psycopg.AsyncConnection]:
        """A session for one query, known to the database as one of the workspace."""
        session = await self._connect()
        pid = session.info.backend_pid
        try:
            await self._note(pid, workspace)
            try:
                yield session
            finally:
                await self._forget(pid)  # as long as no other session can have the number
        finally:
            await session.close()

    async def _connect(self) -> psycopg.AsyncConnection:
        try:
            return await psycopg.AsyncConnection.connect(
                self._address.get_secret_value(),
                application_name="assay-sql",
                connect_timeout=10,
                options=(
                    f"-c search_path={SCHEMA} -c default_transaction_read_only=on"
                    f" -c statement_timeout={round(self._limits.seconds * 1000)}"
                    " -c work_mem=16MB -c max_parallel_workers_per_gather=0 -c jit=off"
                ),
            )
        except psycopg.OperationalError as error:
            log.warning("sql-unavailable", error=str(error))
            raise _away() from error

    async def _note(self, pid: int, workspace: str) -> None:
        """Whatever stands there of an earlier session of the same number is overwritten."""
        noted = {"workspace": workspace, "since": func.now()}
        async with self._engine.begin() as connection:
            await connection.execute(
                insert(sql_sessions)
                .values(pid=pid, **noted)
                .on_conflict_do_update(index_elements=["pid"], set_=noted)
            )

    async def _forget(self, pid: int) -> None:
        async with self._engine.begin() as connection:
            await connection.execute(delete(sql_sessions).where(sql_sessions.c.pid == pid))

    async def _rows(self, session: psycopg.AsyncConnection, asked: SqlQuery) -> SqlRows:
        query = asked.query.rstrip().rstrip(";")
        columns = await _columns(session, query, asked)
        names = ", ".join(f"c{number}" for number in range(len(columns)))
        wrapped = (  # what the query may do is up to the role that it runs as
            f"SELECT CASE WHEN octet_length(j) <= {MAX_ROW_BYTES} THEN j END FROM ("  # noqa: S608
            f"SELECT json_build_array({names})::text AS j FROM (\n{query}\n) AS asked({names})"
            " OFFSET 0) AS rows"
        )
        rows: list[bytes] = []
        size = 0
        try:
            async with psycopg.AsyncRawServerCursor(session, "told") as cursor:
                await cursor.execute(wrapped, asked.parameters)
                while batch := await cursor.fetchmany(_BATCH):
                    for (row,) in batch:
                        if row is None:
                            raise _refused(f"a row is larger than {MAX_ROW_BYTES} bytes")
                        told = row.encode()
                        size += len(told)
                        if len(rows) == self._limits.rows or size > self._limits.bytes:
                            return SqlRows(columns, rows, truncated=True)
                        rows.append(told)
        except QueryCanceled:
            raise
        except psycopg.Error as error:
            raise _in_words_of_the_server(error) from error
        return SqlRows(columns, rows, truncated=False)

    def _too_slow(self) -> ProblemError:
        return _refused(
            f"it took longer than {self._limits.seconds:g} s: ask for less, or for less at a time"
        )


async def _columns(
    session: psycopg.AsyncConnection, query: str, asked: SqlQuery
) -> Sequence[SqlColumn]:
    """The columns of a query, which is planned for that and not run.

    Raises:
        ProblemError: it is no SELECT that the role may run.
    """
    try:
        async with psycopg.AsyncRawServerCursor(session, "asked") as cursor:
            await cursor.execute(query, asked.parameters)
            described = cursor.description or []
    except QueryCanceled:
        raise
    except psycopg.Error as error:
        raise _in_words_of_the_server(error, before=len(_DECLARED)) from error
    if not 1 <= len(described) <= MAX_COLUMNS:
        raise _refused(f"it has {len(described)} columns; there may be 1 to {MAX_COLUMNS}")
    return [SqlColumn(name=one.name, type=one.type_display) for one in described]


def _refused(message: str, **details: object) -> ProblemError:
    issue = ConfigIssue(key="query", message=message)
    return ProblemError(ProblemCode.VALIDATION, 422, str(issue), issues=[issue], details=details)


def _away() -> ProblemError:
    return unavailable("the database does not answer; try again in a moment")


def _in_words_of_the_server(error: psycopg.Error, *, before: int | None = None) -> ProblemError:
    """PostgreSQL's own message; `position` counts characters of the query, from 1."""
    told = error.diag
    if told.message_primary is None or (error.sqlstate or _ENDED).startswith(_ENDED):
        return _away()
    log.info("sql-refused", sqlstate=error.sqlstate)
    message = told.message_primary
    details: dict[str, object] = {"sqlstate": error.sqlstate}
    if before is not None and told.statement_position is not None:
        position = max(int(told.statement_position) - before, 1)
        message, details["position"] = f"{message}, at character {position}", position
    if told.message_hint:
        details["hint"] = told.message_hint
    return _refused(message, **details)
