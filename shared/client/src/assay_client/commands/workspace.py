"""`assay workspace`: workspaces, their members, and which of them is meant."""

import os
from dataclasses import replace
from typing import Annotated

import typer

from assay_client.commands.options import Json, new_commands, open_client, settings_of
from assay_client.errors import InvalidInputError
from assay_client.logins import logins_file, read_logins, write_logins
from assay_client.render.output import answer, show, text, write_json
from assay_client.render.people import member_list, workspace_list
from assay_contracts.http import ChangeWorkspace, CreateWorkspace
from assay_contracts.identity import Role

commands = new_commands("List and choose workspaces; look after their members.")

Name = Annotated[str, typer.Argument(metavar="WORKSPACE", help="Name of a workspace.")]
Member = Annotated[str, typer.Argument(metavar="USER", help="Name of a user.")]


@commands.command("list")
def list_workspaces(context: typer.Context, as_json: Json = False) -> None:
    """List the workspaces that you are a member of."""
    with open_client(context) as client:
        answer(client.workspaces(), as_json, workspace_list)


@commands.command()
def use(context: typer.Context, name: Name, as_json: Json = False) -> None:
    """Mean this workspace from now on, where no other is named."""
    server = settings_of(context).server
    with open_client(context) as client:
        known = [one.name for one in client.workspaces().items]
    if name not in known:
        raise InvalidInputError(
            f"there is no workspace {name} that you can see",
            f"there are: {', '.join(known) or 'none'}",
        )
    path = logins_file(os.environ)
    logins = read_logins(path)
    write_logins(path, logins.remembering(server, replace(logins.of(server), workspace=name)))
    if as_json:
        write_json({"workspace": name, "server": server})
    else:
        show(lambda _: [text(f"{name} is meant from now on")])


@commands.command()
def create(
    context: typer.Context,
    name: Name,
    owner: Annotated[
        str | None, typer.Option("--owner", metavar="USER", help="Who owns it (default: you).")
    ] = None,
    repository: Annotated[
        str | None,
        typer.Option("--repository", metavar="OWNER/NAME", help="For Osmosis clients."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Create a workspace (for operators)."""
    request = CreateWorkspace(name=name, owner=owner, repository=repository)
    with open_client(context) as client:
        answer(client.create_workspace(request), as_json, workspace_list)


@commands.command()
def connect(
    context: typer.Context,
    name: Name,
    repository: Annotated[
        str | None, typer.Argument(metavar="OWNER/NAME", help="None disconnects it.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Connect a workspace to a repository: Osmosis clients in a clone of it then mean this one."""
    with open_client(context) as client:
        changed = client.change_workspace(name, ChangeWorkspace(repository=repository))
    answer(changed, as_json, workspace_list)


@commands.command()
def remove(
    context: typer.Context,
    name: Name,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    as_json: Json = False,
) -> None:
    """Remove a workspace with its members, tokens and secrets. Its name stays taken."""
    if not yes:
        typer.confirm(f"Remove {name} for good?", abort=True, err=True)
    with open_client(context) as client:
        client.remove_workspace(name)
    if as_json:
        write_json({"removed": name})
    else:
        show(lambda _: [text(f"Removed {name}")])


@commands.command()
def members(context: typer.Context, name: Name, as_json: Json = False) -> None:
    """List the members of a workspace."""
    with open_client(context) as client:
        answer(client.members(name), as_json, member_list)


@commands.command("set-member")
def set_member(
    context: typer.Context,
    name: Name,
    user: Member,
    role: Annotated[Role, typer.Option("--role", help="What it is to be.")] = Role.MEMBER,
    as_json: Json = False,
) -> None:
    """Give a user a role in a workspace."""
    with open_client(context) as client:
        answer(client.set_member(name, user, role), as_json, member_list)


@commands.command("remove-member")
def remove_member(context: typer.Context, name: Name, user: Member, as_json: Json = False) -> None:
    """Take a member out of a workspace."""
    with open_client(context) as client:
        client.drop_member(name, user)
    if as_json:
        write_json({"removed": user, "workspace": name})
    else:
        show(lambda _: [text(f"{user} is no longer a member of {name}")])
