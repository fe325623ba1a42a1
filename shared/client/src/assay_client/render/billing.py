"""How a workspace's month looks: limits, and what is spent, reserved and left."""

from collections.abc import Callable, Iterator

from rich.console import RenderableType

from assay_client.render import values
from assay_client.render.output import Frame, table, text
from assay_contracts.http import Billing, BillingAmount, BillingMode

_MODES = {
    BillingMode.OFF: "Nothing is counted (ASSAY_BILLING=off), and no limit holds",
    BillingMode.WEBHOOK: "Nothing is counted: a webhook decides (ASSAY_BILLING=webhook)",
}


def month(found: Billing, _: Frame) -> Iterator[RenderableType]:
    """Each measure a row; under it what the numbers leave out."""
    drawn = table(f"{found.month} (UTC)", ">Limit", ">Spent", ">Reserved", ">Left")
    rows = (
        ("Money", found.usd_limit, found.usd, values.cost),
        ("Sandbox-hours", found.sandbox_hours_limit, found.sandbox_hours, _hours),
    )
    for name, limit, amount, written in rows:
        drawn.add_row(text(name), *map(text, _cells(limit, amount, written)))
    yield drawn
    if found.mode in _MODES:
        yield text(_MODES[found.mode], "yellow")
        return
    if found.tries_without_cost:
        yield text(f"Tries that reported no cost, and count as none: {found.tries_without_cost:,}")
    yield text(f"It starts anew on {found.resets_at:%Y-%m-%d} at 00:00 UTC", "dim")


def _cells(
    limit: float | None, amount: BillingAmount | None, written: Callable[[float | None], str]
) -> Iterator[str]:
    yield "no limit" if limit is None else written(limit)
    if amount is None:
        yield from [values.MISSING] * 3
    else:
        yield from (written(amount.spent), written(amount.reserved), written(amount.left))


def _hours(value: float | None) -> str:
    return values.MISSING if value is None else f"{value:,.2f}"
