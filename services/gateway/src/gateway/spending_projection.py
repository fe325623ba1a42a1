"""Run events to what each workspace spent in each month: money as reported, and sandbox time.

A try counts once, however often it is told, in the month (UTC) in which it finished; what a judge
spent counts in the month of the verdict. A run's row says how often it was opened and whether it
has ended, by which its reservation is open or closed. What imported runs took was spent elsewhere,
and only their judge's share counts.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from uuid import UUID

from sqlalchemy import Table, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection

from assay_contracts.envelope import Event
from assay_contracts.run_events import (
    ResultGraded,
    ResultIngested,
    RunEvent,
    RunFailed,
    RunFinished,
    RunReopened,
    RunStopped,
    RunSubmitted,
    TryData,
)
from assay_kernel.projection import Events, Projection
from gateway.imports import ENVIRONMENT as IMPORTED
from gateway.tables import spending_months, spending_runs, spending_tries

type TryKey = tuple[UUID, int, int, bool]
"""Slot, number of the try, delivery, and whether it is what the judge spent."""


@dataclass(frozen=True)
class Spent:
    """What one try took; `without_cost` where its cost was not reported."""

    run: UUID
    workspace: str
    month: str
    usd: Decimal
    seconds: Decimal
    without_cost: int


class SpendingProjection(Projection):
    """`spending_runs`, `spending_months` and `spending_tries`."""

    name = "spending"
    stream = RunEvent.stream
    subjects: Sequence[str] = ("runs.>",)
    tables: Sequence[Table] = (spending_runs, spending_months, spending_tries)

    async def apply(self, connection: AsyncConnection, events: Events) -> None:
        """Write the rows that follow from `events`."""
        for stored in events:
            await _apply_lifecycle(connection, stored.event)
        told: dict[TryKey, Spent] = {}
        for stored in events:
            for key, spent in _spent(stored.event):
                told.setdefault(key, spent)
        if not told:
            return
        fresh = await connection.execute(
            insert(spending_tries)
            .values([_row(key) for key in told])
            .on_conflict_do_nothing()
            .returning(*spending_tries.primary_key.columns)
        )
        await _add(
            connection,
            [told[slot, number, delivery, judge] for slot, number, delivery, judge in fresh],
        )

    async def react(self, connection: AsyncConnection, events: Events) -> None:
        """Nothing follows but rows."""


async def _apply_lifecycle(connection: AsyncConnection, event: Event) -> None:
    match event:
        case RunSubmitted(run=run, workspace=workspace):
            await connection.execute(
                insert(spending_runs)
                .values(run=run, workspace=workspace, openings=1, ended=False, usd=0, seconds=0)
                .on_conflict_do_nothing()
            )
        case RunReopened(run=run):
            await connection.execute(
                update(spending_runs)
                .where(spending_runs.c.run == run)
                .values(openings=spending_runs.c.openings + 1, ended=False)
            )
        case RunFinished(run=run) | RunStopped(run=run) | RunFailed(run=run):
            await connection.execute(
                update(spending_runs).where(spending_runs.c.run == run).values(ended=True)
            )
        case _:
            pass


def _spent(event: Event) -> Iterator[tuple[TryKey, Spent]]:
    match event:
        case ResultIngested(data=data) if data.environment != IMPORTED:
            usd, seconds, moment = data.usage.cost_usd, data.duration_seconds, data.finished_at
            by_judge = False
        case ResultGraded(data=data) if data.judge is not None:
            usd, seconds, moment = data.judge.usage.cost_usd, None, event.occurred_at
            by_judge = True
        case _:
            return
    yield (
        _key(event.run, data, by_judge),
        Spent(
            run=event.run,
            workspace=event.workspace,
            month=month_of(moment),
            usd=_exact(usd),
            seconds=_exact(seconds),
            without_cost=int(usd is None),
        ),
    )


def month_of(moment: datetime) -> str:
    """The calendar month in UTC, such as `2026-12`."""
    return f"{moment.astimezone(UTC):%Y-%m}"


def _exact(number: float | None) -> Decimal:
    return Decimal(str(number or 0.0))


def _key(run: UUID, data: TryData, by_judge: bool) -> TryKey:
    return data.slot.id(run), data.try_number, data.delivery, by_judge


def _row(key: TryKey) -> dict[str, object]:
    return dict(zip(spending_tries.primary_key.columns.keys(), key, strict=True))


async def _add(connection: AsyncConnection, fresh: Sequence[Spent]) -> None:
    """Add to runs and months what was not told before."""
    by_run: defaultdict[UUID, list[Spent]] = defaultdict(list)
    by_month: defaultdict[tuple[str, str], list[Spent]] = defaultdict(list)
    for spent in fresh:
        by_run[spent.run].append(spent)
        by_month[spent.workspace, spent.month].append(spent)
    for (workspace, month), tries in by_month.items():
        row = insert(spending_months).values(
            workspace=workspace,
            month=month,
            tries_without_cost=sum(one.without_cost for one in tries),
            **_sums(tries),
        )
        added = {
            name: spending_months.c[name] + row.excluded[name]
            for name in ("usd", "seconds", "tries_without_cost")
        }
        await connection.execute(
            row.on_conflict_do_update(index_elements=["workspace", "month"], set_=added)
        )
    for run, tries in by_run.items():
        sums = {name: spending_runs.c[name] + sum_ for name, sum_ in _sums(tries).items()}
        await connection.execute(
            update(spending_runs).where(spending_runs.c.run == run).values(**sums)
        )


def _sums(tries: Sequence[Spent]) -> dict[str, Decimal]:
    nothing = Decimal(0)
    return {
        "usd": sum((one.usd for one in tries), nothing),
        "seconds": sum((one.seconds for one in tries), nothing),
    }
