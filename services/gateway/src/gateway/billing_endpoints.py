"""Billing: a workspace's month and its limits. Members read them, and an operator sets them."""

from datetime import UTC, datetime
from typing import Annotated

from fastapi import APIRouter, Depends

from assay_contracts.http import Billing, SetBilling
from assay_contracts.identity import Permission
from gateway import billing_queries as queries
from gateway.access import Caller, Reading, needs
from gateway.billing_budget import BudgetGate, billing_of
from gateway.billing_queries import Limits
from gateway.desk import Desk, DeskNow

router = APIRouter(prefix="/billing", tags=["billing"])

OperatingHere = Annotated[Caller, Depends(needs(Permission.OPERATE))]
"""An operator, in the workspace that the request names."""


@router.get("", summary="Show the workspace's budget")
async def show(asking: Reading, desk: DeskNow) -> Billing:
    """Its limits and, where the gate is `budget`, what is spent, reserved and left."""
    return await _billing(asking.workspace, desk)


@router.put("", summary="Set the workspace's budget")
async def keep(body: SetBilling, asking: OperatingHere, desk: DeskNow) -> Billing:
    """Set both limits of a calendar month (UTC); an operator's. What runs goes on all the same."""
    async with desk.acting() as connection:
        await queries.set_limits(
            connection,
            asking.workspace,
            body.usd,
            body.sandbox_hours,
            asking.user,
            datetime.now(UTC),
        )
        limits = body.model_dump(exclude_none=True)
        told = {name: f"{limit:g}" for name, limit in limits.items()}
        await desk.audit.tell(connection, asking, "budget-set", asking.workspace, told)
    return await _billing(asking.workspace, desk)


async def _billing(workspace: str, desk: Desk) -> Billing:
    if isinstance(desk.gate, BudgetGate):
        return await desk.gate.describe(workspace)
    async with desk.reading() as connection:
        limits = await queries.limits(connection, workspace)
    return billing_of(desk.gate.mode, limits or Limits(None, None), datetime.now(UTC))
