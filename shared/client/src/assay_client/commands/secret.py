"""`assay secret`: names of secrets, and how their values come in: never as an argument."""

import getpass
import os
import sys
from typing import Annotated, Literal

import typer

from assay_client.api import AssayClient
from assay_client.commands.local import new_master_key
from assay_client.commands.options import (
    Json,
    Limit,
    Offset,
    new_commands,
    open_client,
    settings_of,
)
from assay_client.errors import InvalidInputError
from assay_client.render import values
from assay_client.render.output import Frame, View, answer, show, text, write_json
from assay_client.render.system import rotated_keys, secret_list
from assay_contracts.http import SecretEntry, SetSecret
from assay_contracts.run_config import SECRET_NAME

commands = new_commands("Keep, list and delete secrets; their values are never shown.")

Scope = Annotated[
    Literal["personal", "workspace", "user"],
    typer.Option(
        "--scope",
        help="Yours alone (personal, or user, as the API says), or of the whole workspace.",
    ),
]
Name = Annotated[str, typer.Argument(metavar="NAME", help="Name, such as OPENAI_API_KEY.")]

_LONGEST = 65_536


@commands.command("list")
def list_secrets(
    context: typer.Context, limit: Limit = 50, offset: Offset = 0, as_json: Json = False
) -> None:
    """List the names of the secrets."""
    with open_client(context) as client:
        answer(client.secrets(limit=limit, offset=offset), as_json, secret_list)


@commands.command("set")
def set_secret(
    context: typer.Context,
    name: Name,
    scope: Scope = "personal",
    variable: Annotated[
        str | None,
        typer.Option("--env", metavar="VAR", help="Take the value from this variable."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Keep a secret. Its value is asked for hidden, or read from --env VAR or from stdin."""
    if not SECRET_NAME.match(name):
        raise typer.BadParameter(
            "a secret's name is capitals, digits and underscores, starting with a letter"
        )
    value = _value(name, variable)
    with open_client(context) as client:
        answer(client.set_secret(name, SetSecret(value=value, scope=_kind(scope))), as_json, _kept)


@commands.command()
def delete(
    context: typer.Context, name: Name, scope: Scope = "personal", as_json: Json = False
) -> None:
    """Delete a secret."""
    with open_client(context) as client:
        client.delete_secret(name, scope=_kind(scope))
    if as_json:
        write_json({"deleted": name, "scope": _kind(scope)})
    else:
        show(lambda _: [text(f"Deleted {name} ({values.scope(_kind(scope))})")])


@commands.command()
def rotate(
    context: typer.Context,
    new_key: Annotated[
        bool,
        typer.Option("--new-key", help="Make a new master key in the data folder of this machine."),
    ] = False,
    as_json: Json = False,
) -> None:
    """Put every secret under the newest master key. Exits with 1 where one does not open.

    Values stay encrypted all the while. Broken off, it goes on where it is asked for again.
    """
    settings = settings_of(context)
    if new_key and not settings.is_of_data_folder:
        raise InvalidInputError(
            f"{settings.server} was not started on the data folder {settings.data}",
            "make the key where that server's keys are kept, and rotate without --new-key",
        )
    if new_key:
        new_master_key(settings.data)
    with AssayClient.of(settings) as client:
        rotated = client.rotate_keys()
    answer(rotated, as_json, rotated_keys)
    if rotated.unreadable:
        raise typer.Exit(1)


def _kept(entry: SecretEntry, _: Frame) -> View:
    yield text(f"Kept {entry.name} ({values.scope(entry.scope)})")


def _value(name: str, variable: str | None) -> str:
    if variable is not None:
        value = os.environ.get(variable, "")
        source = f"the variable {variable}"
    elif sys.stdin.isatty():
        value = _asked(name)
        source = "the answer"
    else:
        value = _piped()
        source = "stdin"
    if not value:
        raise InvalidInputError(f"{source} holds no value for {name}")
    if len(value) > _LONGEST:
        raise InvalidInputError(f"the value of {name} is longer than {_LONGEST:,} characters")
    return value


def _asked(name: str) -> str:
    try:
        return getpass.getpass(f"Value of {name} (hidden): ")
    except EOFError:
        return ""


def _piped() -> str:
    try:
        value = sys.stdin.read()
    except UnicodeDecodeError:
        raise InvalidInputError("stdin is not text in UTF-8") from None
    return value.removesuffix("\n").removesuffix("\r")


def _kind(scope: Literal["personal", "workspace", "user"]) -> Literal["workspace", "user"]:
    """The API's word for a scope."""
    return "workspace" if scope == "workspace" else "user"
