"""`assay billing`: what a workspace may spend in a month, and what it has spent."""

import math
from typing import Annotated

import typer

from assay_client.commands.options import Json, new_commands, open_client
from assay_client.errors import InvalidInputError
from assay_client.render.billing import month
from assay_client.render.output import answer
from assay_contracts.http import SetBilling
from assay_contracts.values import MOST_USD

commands = new_commands("Show and set what a workspace may spend in a calendar month (UTC).")

_NO_LIMIT = "none"


@commands.command()
def show(context: typer.Context, as_json: Json = False) -> None:
    """Show the limits, and what is spent, reserved and left this month."""
    with open_client(context) as client:
        answer(client.billing(), as_json, month)


@commands.command("set")
def set_limits(
    context: typer.Context,
    usd: Annotated[
        str | None, typer.Option("--usd", metavar="AMOUNT", help="US dollars, or none.")
    ] = None,
    sandbox_hours: Annotated[
        str | None, typer.Option("--sandbox-hours", metavar="HOURS", help="Hours, or none.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Set the limits (for operators). What is not named stays; `none` takes a limit away."""
    if usd is None and sandbox_hours is None:
        raise typer.BadParameter("name a limit: --usd AMOUNT or --sandbox-hours HOURS")
    asked = {"--usd": usd, "--sandbox-hours": sandbox_hours}
    limits = {name: _limit(name, text) for name, text in asked.items() if text is not None}
    with open_client(context) as client:
        before = client.billing()
        request = SetBilling(
            usd=limits.get("--usd", before.usd_limit),
            sandbox_hours=limits.get("--sandbox-hours", before.sandbox_hours_limit),
        )
        answer(client.set_billing(request), as_json, month)


def _limit(name: str, text: str) -> float | None:
    if text == _NO_LIMIT:
        return None
    try:
        limit = float(text)
    except ValueError:
        limit = math.nan
    if not 0 <= limit <= MOST_USD:
        raise InvalidInputError(f"{name} takes an amount of 0 or more, or {_NO_LIMIT}")
    return limit
