"""The audit stream: who did what as administrator."""

from typing import Annotated

from fastapi import APIRouter, Query
from sqlalchemy import ColumnElement, select

from assay_contracts.http import AuditEntry, AuditPage
from gateway.access import Administering, Operating
from gateway.desk import Desk, DeskNow
from gateway.paging import LARGEST_SEQUENCE, Limit
from gateway.tables import audit

router = APIRouter(tags=["audit"])

Text = Annotated[str | None, Query(max_length=200)]
Before = Annotated[int | None, Query(ge=1, le=LARGEST_SEQUENCE)]


@router.get("/audit", summary="What was done in the workspace")
async def of_workspace(
    asking: Administering,
    desk: DeskNow,
    actor: Text = None,
    act: Text = None,
    target: Text = None,
    before: Before = None,
    limit: Limit = 50,
) -> AuditPage:
    """Administrative acts, the newest first; of one actor, act or target alone if asked."""
    wanted = {"workspace": asking.workspace, "actor": actor, "act": act, "target": target}
    return await _page(desk, wanted, before, limit)


@router.get("/system/audit", summary="What was done to the installation")
async def of_installation(
    _: Operating,
    desk: DeskNow,
    workspace: Text = None,
    actor: Text = None,
    act: Text = None,
    target: Text = None,
    before: Before = None,
    limit: Limit = 50,
) -> AuditPage:
    """Acts of every workspace and on the installation itself (`workspace=installation`)."""
    wanted = {"workspace": workspace, "actor": actor, "act": act, "target": target}
    return await _page(desk, wanted, before, limit)


async def _page(
    desk: Desk, wanted: dict[str, str | None], before: int | None, limit: int
) -> AuditPage:
    clauses: list[ColumnElement[bool]] = [
        audit.c[name] == value for name, value in wanted.items() if value is not None
    ]
    if before is not None:
        clauses.append(audit.c.sequence < before)
    query = select(audit).where(*clauses).order_by(audit.c.sequence.desc()).limit(limit + 1)
    async with desk.reading() as connection:
        rows = (await connection.execute(query)).mappings().all()
    shown = [AuditEntry(**row) for row in rows[:limit]]
    return AuditPage(items=shown, next_before=shown[-1].sequence if len(rows) > limit else None)
