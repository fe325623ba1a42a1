"""Limits, reservations, and what is left of a month."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

from sqlalchemy import ColumnElement, and_, delete, func, or_, select, true
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection

from gateway.billing_estimates import Expected
from gateway.spending_projection import month_of
from gateway.tables import (
    billing_limits,
    billing_reservations,
    spending_months,
    spending_runs,
)

_LAPSES = timedelta(hours=1)
"""A run that has not appeared by then was never submitted: its append failed."""

_NOTHING = Decimal(0)


@dataclass(frozen=True)
class Limits:
    """What a workspace may spend in a month: USD and seconds, None without a limit."""

    usd: Decimal | None
    seconds: Decimal | None
    updated_at: datetime | None = None
    updated_by: str | None = None

    @classmethod
    def of(cls, usd: float | None, hours: float | None) -> "Limits":
        """Limits in USD and hours."""
        exact = _exact(hours)
        return cls(_exact(usd), None if exact is None else exact * 3600)


@dataclass(frozen=True)
class Month:
    """What a workspace has spent in a month, and what is reserved now."""

    usd: Decimal
    seconds: Decimal
    tries_without_cost: int
    reserved_usd: Decimal
    reserved_seconds: Decimal


async def hold_budget(connection: AsyncConnection, workspace: str) -> None:
    """Keep everybody else from reserving in a workspace until the transaction ends."""
    key = func.hashtextextended(f"billing\t{workspace}", 0)
    await connection.execute(select(func.pg_advisory_xact_lock(key)))


async def limits(connection: AsyncConnection, workspace: str) -> Limits | None:
    """A workspace's own limits; None where none were set."""
    found = await connection.execute(
        select(billing_limits).where(billing_limits.c.workspace == workspace)
    )
    row = found.mappings().first()
    if row is None:
        return None
    hours = row["sandbox_hours"]
    return Limits(
        usd=row["usd"],
        seconds=None if hours is None else hours * 3600,
        updated_at=row["updated_at"],
        updated_by=row["updated_by"],
    )


async def set_limits(
    connection: AsyncConnection,
    workspace: str,
    usd: float | None,
    hours: float | None,
    by: str,
    at: datetime,
) -> None:
    """Set both limits of a workspace in place of earlier ones."""
    changed: dict[str, Any] = {
        "usd": _exact(usd),
        "sandbox_hours": _exact(hours),
        "updated_at": at,
        "updated_by": by,
    }
    await connection.execute(
        insert(billing_limits)
        .values(workspace=workspace, **changed)
        .on_conflict_do_update(index_elements=["workspace"], set_=changed)
    )


def _exact(number: float | None) -> Decimal | None:
    return None if number is None else Decimal(str(number))


async def month(
    connection: AsyncConnection, workspace: str, now: datetime, *, without: UUID | None = None
) -> Month:
    """A workspace's month, but for what is reserved for the request `without`.

    One statement, so that a run which ends meanwhile is seen before or after it, and not between.
    """
    held, opened = billing_reservations, spending_runs
    reserved = (
        select(
            func.coalesce(func.sum(_left("usd")), 0).label("reserved_usd"),
            func.coalesce(func.sum(_left("seconds")), 0).label("reserved_seconds"),
        )
        .select_from(held.outerjoin(opened, opened.c.run == held.c.run))
        .where(held.c.workspace == workspace, held.c.id.is_distinct_from(without), _is_open(now))
        .subquery()
    )
    spent = (
        select(*(spending_months.c[name] for name in ("usd", "seconds", "tries_without_cost")))
        .where(spending_months.c.workspace == workspace, spending_months.c.month == month_of(now))
        .subquery()
    )
    found = await connection.execute(
        select(
            reserved, *(func.coalesce(column, 0).label(column.name) for column in spent.c)
        ).select_from(reserved.outerjoin(spent, true()))
    )
    return Month(**found.mappings().one())


def _left(measure: str) -> ColumnElement[Decimal]:
    """What a reservation still holds: less by what its run has spent since."""
    held, spent = billing_reservations.c, spending_runs.c
    since = func.coalesce(spent[measure], 0) - held[f"{measure}_before"]
    return func.greatest(held[measure] - since, 0)


def _is_open(now: datetime) -> ColumnElement[bool]:
    """Whether its run goes on, or is about to begin."""
    held, opened = billing_reservations.c, spending_runs.c
    return or_(
        and_(
            func.coalesce(opened.openings, 0) < held.opening,
            held.reserved_at > now - _LAPSES,
        ),
        and_(opened.openings == held.opening, opened.ended.is_(False)),
    )


async def reserve(
    connection: AsyncConnection,
    request: UUID,
    workspace: str,
    run: UUID,
    needed: Expected,
    at: datetime,
) -> None:
    """Reserve for a request what its run needs from now on, in place of what it had before."""
    found = await connection.execute(select(spending_runs).where(spending_runs.c.run == run))
    row = found.mappings().first()
    changed: dict[str, Any] = {
        "opening": 1 if row is None else row["openings"] + 1,
        "usd": needed.usd,
        "seconds": needed.seconds,
        "usd_before": _NOTHING if row is None else row["usd"],
        "seconds_before": _NOTHING if row is None else row["seconds"],
        "reserved_at": at,
    }
    await connection.execute(
        insert(billing_reservations)
        .values(id=request, workspace=workspace, run=run, **changed)
        .on_conflict_do_update(index_elements=["id"], set_=changed)
    )


async def withdraw(connection: AsyncConnection, request: UUID) -> None:
    """Delete what was reserved for a request."""
    await connection.execute(
        delete(billing_reservations).where(billing_reservations.c.id == request)
    )


async def drop_closed(connection: AsyncConnection, workspace: str) -> None:
    """Delete the reservations of runs that have ended, or were opened again since."""
    held, opened = billing_reservations.c, spending_runs.c
    await connection.execute(
        delete(billing_reservations).where(
            held.workspace == workspace,
            held.run == opened.run,
            or_(
                opened.openings > held.opening,
                and_(opened.openings == held.opening, opened.ended),
            ),
        )
    )


def next_month(now: datetime) -> datetime:
    """When the month ends (UTC)."""
    first = now.astimezone(UTC).replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    return (first + timedelta(days=32)).replace(day=1)
