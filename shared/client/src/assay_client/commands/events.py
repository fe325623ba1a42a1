"""`assay events`: what happens in the workspace, line by line as it happens."""

from typing import Annotated

import typer

from assay_client.api import WantedEvents
from assay_client.commands.options import open_client
from assay_client.following import follow_events, stored_events
from assay_client.render.events import workspace_line
from assay_client.render.output import write_line


def events(
    context: typer.Context,
    *,
    types: Annotated[
        list[str] | None,
        typer.Option(
            "--type",
            metavar="TYPE",
            help="Events of this type alone, such as finished. May be repeated.",
        ),
    ] = None,
    run: Annotated[
        str | None, typer.Option("--run", metavar="RUN", help="Of this run alone (name or id).")
    ] = None,
    benchmark: Annotated[
        str | None,
        typer.Option("--benchmark", metavar="BENCHMARK", help="Of this benchmark and its runs."),
    ] = None,
    streams: Annotated[
        list[str] | None,
        typer.Option(
            "--stream",
            metavar="NAME",
            help="runs, benchmarks or audit (for administrators). May be repeated.",
            show_default="runs and benchmarks",
        ),
    ] = None,
    after: Annotated[
        str | None,
        typer.Option(
            "--after", metavar="ID", help="Go on after the event with this id; 0 is the beginning."
        ),
    ] = None,
    limit: Annotated[
        int | None,
        typer.Option("--limit", min=1, help="How many to show at most.", show_default="all"),
    ] = None,
    follow: Annotated[
        bool,
        typer.Option("--follow/--no-follow", help="Go on until Ctrl-C, or end with what is there."),
    ] = True,
    as_json: Annotated[
        bool,
        typer.Option("--json", help="Print JSON Lines: one event, with its id, on each line."),
    ] = False,
) -> None:
    """Follow the events of the workspace; with --no-follow, print those that are stored."""
    wanted = WantedEvents(types or (), run, benchmark, streams or ())
    read = follow_events if follow else stored_events
    with open_client(context) as client:
        for number, event in enumerate(read(client, wanted, after=after), start=1):
            write_line(event.model_dump_json() if as_json else workspace_line(event))
            if number == limit:
                return
