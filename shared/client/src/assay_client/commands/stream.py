"""`assay run events` and `assay run logs`: what happened to a run, line by line as it is stored."""

import time
from collections.abc import Iterator
from typing import Annotated

import typer

from assay_client.api import AssayClient
from assay_client.commands.options import After, Json, RunRef, open_client
from assay_client.commands.run import commands
from assay_client.errors import NoAnswerError
from assay_client.render.events import event_line, log_line
from assay_client.render.output import write_json, write_line
from assay_client.watching import PATIENCE_SECONDS
from assay_contracts.http import LogLine, LogPage, StoredEvent

_PAGE = 200
_POLL_SECONDS = 1.0

Most = Annotated[
    int | None,
    typer.Option("--limit", min=1, help="How many to show at most.", show_default="all"),
]


@commands.command()
def events(
    context: typer.Context,
    *,
    run: RunRef,
    after: After = None,
    limit: Most = None,
    follow: Annotated[
        bool, typer.Option("--follow", help="Go on with live events until the run ends.")
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print JSON Lines: one event, as stored, on each line.")
    ] = False,
) -> None:
    """Print the events of a run in the order of the stream."""
    with open_client(context) as client:
        found = _live(client, run, after) if follow else _stored(client, run, after)
        for number, stored in enumerate(found, start=1):
            write_line(stored.model_dump_json() if as_json else event_line(stored))
            if number == limit:
                return


@commands.command()
def logs(
    context: typer.Context,
    run: RunRef,
    after: After = None,
    limit: Most = None,
    as_json: Json = False,
) -> None:
    """Print the log of a run."""
    with open_client(context) as client:
        lines: list[LogLine] = []
        rest: int | None = after
        while True:
            wanted = _PAGE if limit is None else min(_PAGE, limit - len(lines))
            page = client.run_logs(run, after=rest, limit=wanted)
            lines.extend(page.items)
            if not as_json:
                for line in page.items:
                    write_line(log_line(line))
            rest = page.next_after
            if rest is None or not page.items or len(lines) == limit:
                break
    if as_json:
        write_json(LogPage(items=lines, next_after=rest))


def _stored(client: AssayClient, run: str, after: int | None) -> Iterator[StoredEvent]:
    rest = after
    while True:
        page = client.run_events(run, after=rest, limit=_PAGE)
        yield from page.items
        rest = page.next_after
        if rest is None or not page.items:
            return


def _live(client: AssayClient, run: str, after: int | None) -> Iterator[StoredEvent]:
    """What is stored, then what happens, until the server ends the stream of an ended run."""
    last = after
    for stored in _stored(client, run, after):
        last = stored.sequence
        yield stored
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            with client.live_run_events(run, after=last) as arriving:
                for stored in arriving:
                    if last is None or stored.sequence > last:
                        last = stored.sequence
                        deadline = time.monotonic() + PATIENCE_SECONDS
                        yield stored
            if client.run(run).status.is_terminal:
                yield from _stored(client, run, last)
                return
        except NoAnswerError:
            if time.monotonic() >= deadline:
                raise
        time.sleep(_POLL_SECONDS)
