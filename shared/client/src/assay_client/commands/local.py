"""`assay up`, `down` and `demo`: run by the package `assay_local` where it is installed."""

import contextlib
import importlib
import os
import sys
from pathlib import Path
from types import ModuleType
from typing import Annotated

import typer

from assay_client.commands.options import DataFolder, Json, Port, new_commands
from assay_client.errors import AssayError
from assay_client.settings import data_folder

DEFAULT_PORT = 8400


class NotInstalledError(AssayError):
    """The part that runs the platform on this machine is not there."""

    code = "NOT_INSTALLED"


def up(
    data: DataFolder = None,
    port: Port = DEFAULT_PORT,
    detach: Annotated[
        bool, typer.Option("--detach", help="Return once it is ready, and leave it running.")
    ] = False,
) -> None:
    """Start the platform on this machine."""
    raise typer.Exit(int(_local("up").up(_folder(data), port, detach)))


def down(data: DataFolder = None) -> None:
    """Stop the platform on this machine; its data stays."""
    raise typer.Exit(int(_local("down").down(_folder(data))))


def new_master_key(data: Path) -> None:
    """Make a newer master key in the data folder of this machine.

    Raises:
        typer.Exit: there could none be made; the reason is told.
    """
    if code := int(_local("new_master_key").new_master_key(data)):
        raise typer.Exit(code)


def demo(
    data: DataFolder = None,
    port: Port = DEFAULT_PORT,
    keep: Annotated[
        bool, typer.Option("--keep/--no-keep", help="Leave the platform as it is, or stop it.")
    ] = True,
    as_json: Json = False,
) -> None:
    """Run the demo benchmark on this machine and show its leaderboard."""
    folder = _folder(data)
    local = _local("demo")
    code = int(local.demo(folder, port, as_json))
    if not keep:
        with contextlib.redirect_stdout(sys.stderr):
            code = int(local.down(folder)) or code
    raise typer.Exit(code)


nats = new_commands("What a nats-server of your own needs to be told.")


@nats.command()
def permissions() -> None:
    """Print the users of a nats-server, one for each service, with what each may do."""
    raise typer.Exit(int(_local("nats_permissions").nats_permissions()))


def _folder(data: str | None) -> Path:
    return Path(data).expanduser() if data else data_folder(os.environ)


def _local(command: str) -> ModuleType:
    try:
        found = importlib.import_module("assay_local.commands")
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "assay_local":
            raise
        found = None
    if found is None or not hasattr(found, command):
        raise NotInstalledError(
            f"assay {command} needs the package assay-local, which is not installed here",
            "install it, or name a server that runs elsewhere with --server or ASSAY_SERVER",
        )
    return found
