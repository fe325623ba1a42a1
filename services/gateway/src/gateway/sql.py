"""Queries in SQL over the workspace's read models."""

from typing import Annotated

from fastapi import APIRouter, Depends, Request, Response

from assay_contracts.http import SqlAnswer, SqlQuery
from gateway.access import Reading
from gateway.problems import unavailable
from gateway.sql_queries import SqlDesk

router = APIRouter(prefix="/sql", tags=["sql"])


def _sql_desk(request: Request) -> SqlDesk:
    desk: SqlDesk | None = request.app.state.sql
    if desk is None:
        raise unavailable("queries are not set up here: the gateway needs ASSAY_SQL_DATABASE_URL")
    return desk


@router.post("", summary="Query with SQL", response_model=SqlAnswer)
async def query(
    body: SqlQuery, asking: Reading, desk: Annotated[SqlDesk, Depends(_sql_desk)]
) -> Response:
    """One SELECT over the views `benchmarks`, `tasks`, `runs`, `agents`, `results`, `tries` and
    `standings` of the workspace. A mistake is told in PostgreSQL's words, with its position.
    """
    rows = await desk.run(asking.workspace, body)
    return Response(rows.to_json(), media_type="application/json")
