"""What runs with a budget have spent: every try of agents and judges, each told result once."""

from collections import defaultdict
from collections.abc import Iterator
from decimal import Decimal
from typing import Any
from uuid import UUID

from sqlalchemy import or_, select, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection

from assay_contracts.run_events import ResultGraded, ResultIngested, TryData, Usage
from assay_kernel.projection import Events
from run_scheduler.tables import runs, spendings


async def add_spending(connection: AsyncConnection, events: Events) -> None:
    """Add to the runs with a budget what `events` report; what was told before adds nothing."""
    told = list(_reported(events))
    if not told:
        return
    with_budget = await _with_budget(connection, {run for run, _ in told})
    rows = [row for run, row in told if run in with_budget]
    if not rows:
        return
    new = await connection.execute(
        insert(spendings)
        .values(rows)
        .on_conflict_do_nothing()
        .returning(spendings.c.run, spendings.c.usd, spendings.c.tokens)
    )
    usd: defaultdict[UUID, Decimal] = defaultdict(Decimal)
    tokens: defaultdict[UUID, int] = defaultdict(int)
    for row in new:
        usd[row.run] += row.usd
        tokens[row.run] += row.tokens
    for run, spent in usd.items():
        await connection.execute(
            update(runs)
            .where(runs.c.id == run)
            .values(
                spent_usd=runs.c.spent_usd + spent,
                spent_tokens=runs.c.spent_tokens + tokens[run],
            )
        )


async def _with_budget(connection: AsyncConnection, ids: set[UUID]) -> set[UUID]:
    execution = runs.c.submitted["execution"]
    found = await connection.scalars(
        select(runs.c.id).where(
            runs.c.id.in_(ids),
            or_(
                execution["budget_usd"].astext.is_not(None),
                execution["budget_tokens"].astext.is_not(None),
            ),
        )
    )
    return set(found)


def _reported(events: Events) -> Iterator[tuple[UUID, dict[str, Any]]]:
    for stored in events:
        match stored.event:
            case ResultIngested(run=run, data=data):
                usage, by_judge = data.usage, False
            case ResultGraded(run=run, data=data) if data.judge is not None:
                usage, by_judge = data.judge.usage, True
            case _:
                continue
        if usage.cost_usd is not None or usage.tokens is not None:
            yield run, _row(run, data, usage, by_judge)


def _row(run: UUID, data: TryData, usage: Usage, by_judge: bool) -> dict[str, Any]:
    return {
        "slot": data.slot.id(run),
        "run": run,
        "try_number": data.try_number,
        "delivery": data.delivery,
        "by_judge": by_judge,
        "usd": Decimal(str(usage.cost_usd or 0.0)),
        "tokens": usage.tokens or 0,
    }
