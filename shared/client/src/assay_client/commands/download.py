"""`assay run download`: the files of a run."""

from pathlib import Path
from typing import Annotated

import typer

from assay_client.commands.options import Json, RunRef, open_client
from assay_client.commands.run import commands
from assay_client.errors import InterruptedByUserError, InvalidInputError
from assay_client.render.meter import Meter
from assay_client.render.output import answer
from assay_contracts.http import DownloadType, TableFormat

_ALL = "all"


@commands.command()
def download(
    context: typer.Context,
    *,
    run: RunRef,
    types: Annotated[
        str,
        typer.Option(
            "--type",
            metavar="TYPES",
            help="Comma list of summary, results, artifacts, logs and config; or all.",
        ),
    ] = "summary,results",
    table_format: Annotated[
        TableFormat, typer.Option("--format", help="How summary and results are written.")
    ] = TableFormat.CSV,
    output: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--output",
            metavar="DIR",
            help="Where to.",
            show_default="a folder of the run's name",
            file_okay=False,
        ),
    ] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace files that are not what the run has now.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Download a run's files. What is there already is not fetched again; exits with 1 where any
    file fails."""
    # Here, since it takes a moment to load and no other command needs it.
    from assay_client.downloading import Order, download_run  # noqa: PLC0415
    from assay_client.render.downloads import downloaded  # noqa: PLC0415

    order = Order(run, _types(types), table_format, overwrite)
    try:
        with open_client(context) as client, Meter("files", silent=as_json) as meter:
            report = download_run(
                client,
                order,
                output,
                lambda so_far: meter.update(
                    f"{so_far.run_name} into {so_far.output_path}",
                    so_far.files_downloaded + so_far.files_skipped + len(so_far.files_failed),
                    so_far.total_files,
                ),
            )
    except KeyboardInterrupt:
        raise InterruptedByUserError("the same download again goes on from there") from None
    answer(report, as_json, downloaded)
    if report.files_failed:
        raise typer.Exit(1)


def _types(listed: str) -> list[DownloadType]:
    names = list(dict.fromkeys(name.strip().lower() for name in listed.split(",")))
    if names == [_ALL]:
        return list(DownloadType)
    unknown = [name for name in names if name not in set(DownloadType)]
    if _ALL in unknown:
        raise InvalidInputError("--type all stands alone: it is every type there is")
    if unknown:
        known = ", ".join(DownloadType)
        raise InvalidInputError(
            f"there is no type {', '.join(unknown) or '(blank)'}", f"there are {known}, and all"
        )
    return [DownloadType(name) for name in names]
