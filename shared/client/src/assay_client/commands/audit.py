"""`assay audit`: who did what as administrator."""

from typing import Annotated

import typer

from assay_client.commands.options import Json, Limit, open_client
from assay_client.render.output import answer
from assay_client.render.people import audit_page


def audit(
    context: typer.Context,
    installation: Annotated[
        bool, typer.Option("--installation", help="Of every workspace (for operators).")
    ] = False,
    actor: Annotated[str | None, typer.Option("--actor", help="What one user did.")] = None,
    act: Annotated[str | None, typer.Option("--act", help="Such as token-created.")] = None,
    target: Annotated[str | None, typer.Option("--target", help="To whom or what.")] = None,
    before: Annotated[
        int | None, typer.Option("--before", min=1, help="Older than this sequence.")
    ] = None,
    limit: Limit = 50,
    as_json: Json = False,
) -> None:
    """Show administrative acts, the newest first."""
    with open_client(context) as client:
        found = client.audit(
            installation=installation,
            actor=actor,
            act=act,
            target=target,
            before=before,
            limit=limit,
        )
    answer(found, as_json, audit_page)
