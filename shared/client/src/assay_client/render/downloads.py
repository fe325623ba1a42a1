"""How a download looks: what came, what was there, what failed."""

from collections.abc import Iterator

from rich.console import RenderableType
from rich.filesize import decimal

from assay_client.downloading import DownloadReport
from assay_client.render import values
from assay_client.render.output import Frame, text
from assay_client.render.problems import MOST_ISSUES


def downloaded(report: DownloadReport, _: Frame) -> Iterator[RenderableType]:
    """What a download led to."""
    came = f"{values.plural(report.files_downloaded, 'file')} ({decimal(report.bytes_downloaded)})"
    yield text(f"Downloaded {came} of {report.run_name} into {report.output_path}")
    if report.files_skipped:
        yield text(f"  {values.plural(report.files_skipped, 'file')} there already")
    if report.snapshot:
        yield text("  a snapshot: the run goes on; the same with --overwrite gives a later one")
    if report.files_failed:
        yield text(f"  {values.plural(len(report.files_failed), 'file')} failed:")
    for failed in report.files_failed[:MOST_ISSUES]:
        yield text(f"    {failed.path}: {failed.error}")
    if len(report.files_failed) > MOST_ISSUES:
        yield text(f"    and {len(report.files_failed) - MOST_ISSUES:,} more; --json lists all")
