"""How the system looks: its services, what a replay found, and the names of secrets."""

from collections.abc import Iterator, Mapping, Sequence

from rich.console import RenderableType

from assay_client.render import values
from assay_client.render.output import Frame, table, text
from assay_client.render.paging import more
from assay_contracts.http import (
    Page,
    ReplayReport,
    RotatedKeys,
    RowDifference,
    SecretEntry,
    SystemStatus,
)

_DIFFERENCES_SHOWN = 20


def system_status(found: SystemStatus, server: str) -> Iterator[RenderableType]:
    """Every service with its state, and what is missing."""
    state = "ready" if found.ready else "not ready"
    yield text(
        f"Assay {found.version} at {server} is {state}", "bold green" if found.ready else "bold red"
    )
    drawn = table("Service", "State", "Version", "Instance", "Projections at")
    for service in found.services:
        projections = ", ".join(f"{name} {at:,}" for name, at in service.projections.items())
        drawn.add_row(
            text(service.service),
            text("ready", "green") if service.ready else text("not ready", "red"),
            text(service.version),
            text(service.instance),
            text(projections or values.MISSING),
        )
    if found.services:
        yield drawn
    if found.missing:
        yield text(f"Missing: {', '.join(found.missing)}", "red")
    if found.dead_letters:
        letters = values.plural(found.dead_letters, "dead letter")
        yield text(f"{letters}; see: assay deadletter list", "red")


def replay_reports(reports: Sequence[ReplayReport], _: Frame) -> Iterator[RenderableType]:
    """What each replay found, and the rows that differ."""
    if not reports:
        yield text("There is no projection to replay")
        return
    headings = (">Up to", ">Events", ">Rows", ">Time", "Outcome")
    drawn = table("Service", "Projection", *headings)
    for report in reports:
        drawn.add_row(
            text(report.service),
            text(report.projection),
            text(f"{report.sequence:,}"),
            text(f"{report.events:,}"),
            text(f"{sum(report.rows.values()):,}"),
            text(values.seconds(report.seconds)),
            _outcome(report),
        )
    yield drawn
    for report in reports:
        yield from _differences(report)
        if report.left_out:
            numbers = ", ".join(str(one) for one in report.left_out)
            yield text(
                f"{report.projection} leaves out what it cannot fold, at {numbers}; "
                "see: assay deadletter list",
                "red",
            )


def _outcome(report: ReplayReport) -> RenderableType:
    same = "identical" if report.identical else "differs"
    shown = f"{same}, swapped in" if report.swapped else same
    return text(shown, "green" if report.identical else "red")


def _differences(report: ReplayReport) -> Iterator[RenderableType]:
    if not report.differences:
        return
    drawn = table("Row", "Problem", "Columns", title=f"\n{values.clean(report.projection)}")
    for row in report.differences[:_DIFFERENCES_SHOWN]:
        columns = ", ".join(row.columns) or values.MISSING
        drawn.add_row(text(f"{row.table} {_key(row)}"), text(row.problem), text(columns))
    yield drawn
    left = len(report.differences) - _DIFFERENCES_SHOWN
    if left > 0:
        yield text(f"and {left:,} more; --json has them all", "dim")


def _key(row: RowDifference) -> str:
    key: Mapping[str, object] = row.key
    return ", ".join(f"{name}={value}" for name, value in key.items())


def secret_list(page: Page[SecretEntry], frame: Frame) -> Iterator[RenderableType]:
    """Names of secrets, never their values."""
    if not page.items:
        yield text("No secrets yet; keep one with: assay secret set NAME")
        return
    drawn = table("Name", "Scope", "Updated", "Updated By")
    for entry in page.items:
        drawn.add_row(
            text(entry.name),
            text(values.scope(entry.scope)),
            text(values.age(entry.updated_at, frame.now)),
            text(entry.updated_by),
        )
    yield drawn
    yield from more(page)


def rotated_keys(found: RotatedKeys, _: Frame) -> Iterator[RenderableType]:
    """Which key is the newest, what is under it now, and what opens with none."""
    secrets = values.plural(found.records, "secret")
    yield text(f"{secrets} under the key {found.key}, {found.rewrapped:,} of them newly so")
    if found.unreadable:
        names = ", ".join(found.unreadable_names)
        lost = values.plural(found.unreadable, "secret")
        yield text(f"{lost} with no key that is there; set again: {names}", "red")
    elif len(found.keys) > 1:
        older = values.plural(len(found.keys) - 1, "older key")
        yield text(f"{older} not needed any more, but by backups of the database")
