"""`assay token`: API tokens, for programs and for continuous integration."""

from typing import Annotated
from uuid import UUID

import typer

from assay_client.commands.options import Json, Limit, Offset, new_commands, open_client
from assay_client.render.output import answer, show, text, write_json
from assay_client.render.people import new_token, token_list
from assay_contracts.http import CreateToken
from assay_contracts.identity import Permission

commands = new_commands("Create, list and revoke API tokens.")

TokenId = Annotated[UUID, typer.Argument(metavar="ID", help="Id of a token.")]


@commands.command("list")
def list_tokens(
    context: typer.Context,
    user: Annotated[
        str | None, typer.Option("--user", help="Another user's (for operators).")
    ] = None,
    limit: Limit = 50,
    offset: Offset = 0,
    as_json: Json = False,
) -> None:
    """List your tokens; the tokens themselves are never shown again."""
    with open_client(context) as client:
        answer(client.tokens(user=user, limit=limit, offset=offset), as_json, token_list)


@commands.command()
def create(
    context: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME", help="What it is for.")],
    scope: Annotated[
        list[Permission] | None,
        typer.Option("--scope", help="Cut it to a permission; can be given several times."),
    ] = None,
    only: Annotated[
        str | None, typer.Option("--only", metavar="WORKSPACE", help="Good for one workspace.")
    ] = None,
    days: Annotated[
        int | None, typer.Option("--days", min=1, max=3650, help="How long it is good.")
    ] = 90,
    for_ever: Annotated[bool, typer.Option("--for-ever", help="It does not expire.")] = False,
    as_json: Json = False,
) -> None:
    """Create a token and show it, once. It can do what you can, or less."""
    request = CreateToken(
        name=name,
        scopes=scope or None,
        workspace=only,
        expires_in_days=None if for_ever else days,
    )
    with open_client(context) as client:
        answer(client.create_token(request), as_json, new_token)


@commands.command()
def revoke(context: typer.Context, token: TokenId, as_json: Json = False) -> None:
    """Let a token open nothing any more."""
    with open_client(context) as client:
        client.revoke_token(token)
    if as_json:
        write_json({"revoked": str(token)})
    else:
        show(lambda _: [text(f"Revoked {token}")])
