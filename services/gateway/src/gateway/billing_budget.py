"""The gate `budget`: a run starts where what it is expected to take is left of the month.

What is left follows from events and open reservations alone: the limit, less what tries spent this
month, less what is reserved for runs that go on and that they have not spent yet. So nothing is
settled when a run ends: its reservation is closed by the event that ends it. Reservations of a
workspace are made one at a time.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

import structlog
from sqlalchemy.ext.asyncio import AsyncEngine

from assay_contracts.http import Billing, BillingAmount, BillingMode
from assay_contracts.run_events import RunEvent
from gateway import billing_queries as queries
from gateway.billing import Gate, Opening, billing_required
from gateway.billing_estimates import Expected, Flat, expected
from gateway.billing_queries import Limits, Month, next_month
from gateway.desk import Desk
from gateway.spending_projection import SpendingProjection, month_of

_HOUR = Decimal(3600)

log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class Shortfall:
    """A measure of which not enough is left: what is needed, and of the limit what is left."""

    measure: str
    needed: Decimal
    left: Decimal
    limit: Decimal

    @property
    def told(self) -> str:
        """In words."""
        if self.measure == "usd":
            return (
                f"it is expected to cost {self.needed:.2f} USD, and {self.left:.2f} of the "
                f"{self.limit:.2f} USD for the month are left"
            )
        return (
            f"it is expected to take {self.needed:.2f} sandbox-hours, and {self.left:.2f} of the "
            f"{self.limit:.2f} for the month are left"
        )

    @property
    def details(self) -> dict[str, float]:
        """As numbers."""
        return {
            "limit": float(self.limit),
            "left": float(self.left),
            "needed": float(self.needed),
            "missing": float(self.needed - self.left),
        }


class BudgetGate(Gate):
    """Lets pass what the workspace's budget covers.

    Args:
        desk: where read models and streams are.
        engine: the gateway's database.
        default: the limits of a workspace for which none were set.
        flat: what a slot is taken to need where nothing is known.
        now: the present time (UTC).
    """

    mode = BillingMode.BUDGET

    def __init__(
        self,
        desk: Desk,
        engine: AsyncEngine,
        default: Limits,
        flat: Flat,
        *,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._desk = desk
        self._engine = engine
        self._default = default
        self._flat = flat
        self._now = now

    async def admit(self, request: UUID, opening: Opening) -> None:
        """Reserve what the opening is expected to take.

        Raises:
            ProblemError: that is not left, or what was spent is not all counted yet.
        """
        await self._counted()
        async with self._desk.reading() as connection:
            needed = await expected(connection, opening, self._flat)
        now = self._now()
        async with self._engine.begin() as connection:
            await queries.hold_budget(connection, opening.workspace)
            await queries.drop_closed(connection, opening.workspace)
            limits = await queries.limits(connection, opening.workspace) or self._default
            month = await queries.month(connection, opening.workspace, now, without=request)
            lacking = list(shortfalls(limits, month, needed))
            if not lacking:
                await queries.reserve(
                    connection, request, opening.workspace, opening.run, needed, now
                )
        if lacking:
            log.info("budget-exceeded", workspace=opening.workspace, run=str(opening.run))
            raise billing_required(*_refusal(lacking, needed, next_month(now)))

    async def withdraw(self, request: UUID) -> None:
        """Take back what was reserved for a request that came to nothing."""
        async with self._engine.begin() as connection:
            await queries.withdraw(connection, request)

    async def _counted(self) -> None:
        """Wait until everything that was told is counted.

        Raises:
            ProblemError: that takes too long, such as when the mode was switched on just now.
        """
        last = await self._desk.store.last_sequence(RunEvent.stream, "runs.>")
        await self._desk.seen_by("gateway", SpendingProjection.name, last)

    async def describe(self, workspace: str) -> Billing:
        """A workspace's month so far."""
        now = self._now()
        async with self._engine.connect() as connection:
            own = await queries.limits(connection, workspace)
            month = await queries.month(connection, workspace, now)
        limits = own or self._default
        return billing_of(
            self.mode,
            limits,
            now,
            usd=_amount(limits.usd, month.usd, month.reserved_usd),
            sandbox_hours=_amount(
                None if limits.seconds is None else limits.seconds / _HOUR,
                month.seconds / _HOUR,
                month.reserved_seconds / _HOUR,
            ),
            tries_without_cost=month.tries_without_cost,
        )


def billing_of(mode: BillingMode, limits: Limits, now: datetime, **counted: Any) -> Billing:
    """A workspace's billing as it is shown; `counted` are the fields that only `budget` fills."""
    hours = None if limits.seconds is None else float(limits.seconds / _HOUR)
    nothing = dict.fromkeys(("usd", "sandbox_hours", "tries_without_cost"))
    return Billing(
        mode=mode,
        month=month_of(now),
        resets_at=next_month(now),
        usd_limit=None if limits.usd is None else float(limits.usd),
        sandbox_hours_limit=hours,
        updated_at=limits.updated_at,
        updated_by=limits.updated_by,
        **{**nothing, **counted},
    )


def shortfalls(limits: Limits, month: Month, needed: Expected) -> Iterator[Shortfall]:
    """Of which measures not enough is left. What takes nothing of one needs nothing left of it."""
    if limits.usd is not None:
        left = limits.usd - month.usd - month.reserved_usd
        if needed.usd > max(left, Decimal(0)):
            yield Shortfall("usd", needed.usd, left, limits.usd)
    if limits.seconds is not None:
        left = limits.seconds - month.seconds - month.reserved_seconds
        if needed.seconds > max(left, Decimal(0)):
            hours = (one / _HOUR for one in (needed.seconds, left, limits.seconds))
            yield Shortfall("sandbox_hours", *hours)


def _refusal(
    lacking: list[Shortfall], needed: Expected, resets_at: datetime
) -> tuple[str, dict[str, Any]]:
    said = "; and ".join(one.told for one in lacking)
    detail = (
        f"the workspace's budget does not cover the run: {said} (expected from {needed.basis}). "
        f"It starts anew on {resets_at:%Y-%m-%d} at 00:00 UTC; until then an operator can raise it "
        "with assay billing set, or the run can be made smaller: fewer tasks, attempts or agents, "
        "or a budget_usd and a deadline of its own"
    )
    details: dict[str, Any] = {one.measure: one.details for one in lacking}
    return detail, details | {"resets_at": resets_at.isoformat(), "basis": needed.basis}


def _amount(limit: Decimal | None, spent: Decimal, reserved: Decimal) -> BillingAmount:
    return BillingAmount(
        limit=None if limit is None else float(limit),
        spent=float(spent),
        reserved=float(reserved),
        left=None if limit is None else float(limit - spent - reserved),
    )
