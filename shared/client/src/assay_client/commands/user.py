"""`assay user`: the users of the installation, for operators."""

from typing import Annotated

import typer

from assay_client.commands.options import Json, Limit, Offset, new_commands, open_client
from assay_client.render.output import answer
from assay_client.render.people import invitation, new_user, user_list
from assay_contracts.http import ChangeUser, CreateUser
from assay_contracts.identity import Role

commands = new_commands("Create, change and invite users (for operators).")

UserName = Annotated[str, typer.Argument(metavar="USER", help="Name of a user.")]


@commands.command("list")
def list_users(
    context: typer.Context, limit: Limit = 50, offset: Offset = 0, as_json: Json = False
) -> None:
    """List the users of the installation."""
    with open_client(context) as client:
        answer(client.users(limit=limit, offset=offset), as_json, user_list)


@commands.command()
def create(
    context: typer.Context,
    name: UserName,
    email: Annotated[str, typer.Option("--email", help="E-mail address.")],
    display_name: Annotated[
        str | None, typer.Option("--display-name", help="Name as it is shown.")
    ] = None,
    member_of: Annotated[
        str | None,
        typer.Option("--member-of", metavar="WORKSPACE", help="A workspace to begin with."),
    ] = None,
    role: Annotated[Role, typer.Option("--role", help="What it is there.")] = Role.MEMBER,
    operator: Annotated[bool, typer.Option("--operator", help="It runs the installation.")] = False,
    as_json: Json = False,
) -> None:
    """Create a user, and show the invitation to pass on: with it the user sets a password."""
    request = CreateUser(
        name=name,
        email=email,
        display_name=display_name,
        operator=operator,
        workspace=member_of,
        role=role,
    )
    with open_client(context) as client:
        answer(client.create_user(request), as_json, new_user)


@commands.command()
def invite(context: typer.Context, name: UserName, as_json: Json = False) -> None:
    """Invite a user again, such as one who has lost its password."""
    with open_client(context) as client:
        answer(client.invite_user(name), as_json, invitation)


@commands.command()
def change(
    context: typer.Context,
    name: UserName,
    email: Annotated[str | None, typer.Option("--email", help="E-mail address.")] = None,
    display_name: Annotated[
        str | None, typer.Option("--display-name", help="Name as it is shown.")
    ] = None,
    operator: Annotated[
        bool | None, typer.Option("--operator/--no-operator", help="Runs the installation.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Change a user's address, its name, or whether it is an operator."""
    request = ChangeUser(email=email, display_name=display_name, operator=operator)
    with open_client(context) as client:
        answer(client.change_user(name, request), as_json, user_list)


@commands.command()
def disable(context: typer.Context, name: UserName, as_json: Json = False) -> None:
    """End a user's sessions, and let its tokens open nothing."""
    with open_client(context) as client:
        answer(client.change_user(name, ChangeUser(disabled=True)), as_json, user_list)


@commands.command()
def enable(context: typer.Context, name: UserName, as_json: Json = False) -> None:
    """Let a user that was disabled in again."""
    with open_client(context) as client:
        answer(client.change_user(name, ChangeUser(disabled=False)), as_json, user_list)
