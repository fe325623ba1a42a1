"""The row that is shown of each slot: of the try that counts, or of its latest where none does."""

from collections.abc import Mapping
from uuid import UUID

from sqlalchemy import ARRAY, Text, Uuid, column, func, literal, select
from sqlalchemy.dialects.postgresql import distinct_on, insert
from sqlalchemy.ext.asyncio import AsyncConnection

from grader.tables import results, tries

_COPIED = (
    *("slot", "run", "agent", "task", "attempt", "try_number", "delivery", "outcome", "cause"),
    *("reason", "reward", "seconds", "cost_usd"),
)


async def show_slots(connection: AsyncConnection, categories: Mapping[UUID, str | None]) -> None:
    """Write the rows of slots of which tries have changed.

    Args:
        connection: to the tables.
        categories: the category of the task of each such slot, by the slot's id.
    """
    if not categories:
        return
    changed = (
        func.unnest(
            literal(list(categories), ARRAY(Uuid)), literal(list(categories.values()), ARRAY(Text))
        )
        .table_valued(column("slot", Uuid), column("category", Text))
        .render_derived(name="changed")
    )
    both = tries.c.input_tokens + tries.c.output_tokens
    shown = (
        select(
            *(tries.c[name] for name in _COPIED),
            changed.c.category,
            func.coalesce(both, tries.c.total_tokens).label("tokens"),
        )
        .join(changed, changed.c.slot == tries.c.slot)
        .ext(distinct_on(tries.c.slot))
        .order_by(
            tries.c.slot,
            tries.c.counted.desc(),
            tries.c.try_number.desc(),
            tries.c.delivery.desc(),
        )
    )
    names = [*_COPIED, "category", "tokens"]
    statement = insert(results).from_select(names, shown)
    await connection.execute(
        statement.on_conflict_do_update(
            index_elements=["slot"],
            set_={name: statement.excluded[name] for name in names if name != "slot"},
        )
    )
