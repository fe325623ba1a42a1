"""Options that several commands share, and what they know from the root of the command line."""

import os
from dataclasses import dataclass
from typing import Annotated

import typer

from assay_client.api import AssayClient
from assay_client.settings import ClientSettings

Json = Annotated[
    bool, typer.Option("--json", help="Print one JSON document, and errors as JSON on stderr.")
]
Limit = Annotated[int, typer.Option("--limit", min=1, max=1000, help="How many to show at most.")]
Offset = Annotated[int, typer.Option("--offset", min=0, help="How many to leave out before.")]
Cursor = Annotated[
    str | None, typer.Option("--cursor", help="Begin where the page ended that showed it.")
]
After = Annotated[
    int | None, typer.Option("--after", min=0, help="Begin after this sequence of the stream.")
]
Wait = Annotated[
    bool, typer.Option("--wait/--no-wait", help="Wait until the task list is read, or has failed.")
]
BenchmarkRef = Annotated[
    str, typer.Argument(metavar="BENCHMARK", help="Key, name or id of a benchmark.")
]
RunRef = Annotated[str, typer.Argument(metavar="RUN", help="Name or id of a run.")]
DataFolder = Annotated[
    str | None,
    typer.Option(
        "--data",
        metavar="DIR",
        help="Data folder of the installation.",
        envvar="ASSAY_DATA",
        show_default="the user's data folder",
    ),
]
Port = Annotated[int, typer.Option("--port", min=1, max=65535, help="Port of the HTTP server.")]


@dataclass(frozen=True)
class Root:
    """The options that stand before the subcommand."""

    server: str | None = None
    workspace: str | None = None


def settings_of(context: typer.Context) -> ClientSettings:
    """The settings that the root options and the environment amount to."""
    root = context.obj if isinstance(context.obj, Root) else Root()
    return ClientSettings.resolve(os.environ, root.server, root.workspace)


def open_client(context: typer.Context) -> AssayClient:
    """A client of the server that is meant."""
    return AssayClient.of(settings_of(context))


def new_commands(help_text: str) -> typer.Typer:
    """A group of subcommands."""
    return typer.Typer(help=help_text, no_args_is_help=True)
