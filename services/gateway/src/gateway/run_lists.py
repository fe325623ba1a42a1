"""Lists of a workspace's runs: filtered, the newest first, in pages."""

from dataclasses import astuple, dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import ColumnElement, RowMapping, func, literal, or_, select, tuple_
from sqlalchemy.ext.asyncio import AsyncConnection

from assay_contracts.http import Page, RunEntry
from assay_contracts.labels import NO_MODEL
from assay_contracts.values import RunStatus
from gateway.cursors import Place, read_cursor, refused, require_one_beginning, write_cursor
from gateway.read_models import runs
from gateway.run_queries import entries_of


@dataclass(frozen=True)
class WantedRuns:
    """Which runs are asked for; nothing given is no filter.

    `harness` and `model` (as leaderboards write it) are those of one and the same agent. `since` is
    the first moment of submission that is meant, `until` the first that is not.
    """

    benchmark: UUID | None = None
    statuses: tuple[RunStatus, ...] = ()
    submitter: str | None = None
    harness: str | None = None
    model: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    search: str | None = None

    @property
    def conditions(self) -> list[ColumnElement[bool]]:
        """The filters."""
        found: list[ColumnElement[bool]] = []
        if self.benchmark is not None:
            found.append(runs.c.benchmark == self.benchmark)
        if self.statuses:
            found.append(runs.c.status.in_([one.value for one in self.statuses]))
        if self.submitter is not None:
            found.append(runs.c.submitted_by == self.submitter)
        if self.harness is not None or self.model is not None:
            found.append(_has_agent(self.harness, self.model))
        if self.since is not None:
            found.append(runs.c.submitted_at >= self.since)
        if self.until is not None:
            found.append(runs.c.submitted_at < self.until)
        if self.search:
            found.append(runs.c.name.icontains(self.search, autoescape=True))
        return found


def _has_agent(harness: str | None, model: str | None) -> ColumnElement[bool]:
    """Whether one of a run's agents is such a one."""
    agent = {} if harness is None else {"harness": harness}
    labels: list[dict[str, Any]] = [{}]
    if model == NO_MODEL:
        labels = [{"model": None}]
    elif model is not None:
        labels = [{"model": {name: model}} for name in ("model", "lora_model_name")]
    agents = runs.c.submitted["agents"]
    return or_(*(agents.contains([agent | label]) for label in labels))


async def list_runs(
    connection: AsyncConnection,
    workspace: str,
    wanted: WantedRuns,
    *,
    limit: int,
    offset: int = 0,
    cursor: str | None = None,
) -> Page[RunEntry]:
    """A page of a workspace's runs, the newest first.

    Raises:
        ProblemError: the cursor is none, or one of other filters.
    """
    require_one_beginning(cursor, offset)
    question = [workspace, *astuple(wanted)]
    mine = [runs.c.workspace == workspace, *wanted.conditions]
    query = select(runs).where(*mine)
    if cursor is None:
        counted = await connection.scalar(select(func.count()).select_from(runs).where(*mine))
        total, query = int(counted or 0), query.offset(offset)
    else:
        place = read_cursor(cursor, question, [str, str])
        total, query = place.total, query.where(_is_after(place))
    found = await connection.execute(
        query.order_by(runs.c.submitted_at.desc(), runs.c.id.desc()).limit(limit + 1)
    )
    rows = list(found.mappings())
    following = None
    if len(rows) > limit:
        following = write_cursor(question, _place(rows[limit - 1], total))
    return Page(
        items=await entries_of(connection, rows[:limit]),
        total_count=total,
        next_offset=offset + limit if following is not None and cursor is None else None,
        next_cursor=following,
    )


def _place(row: RowMapping, total: int) -> Place:
    return Place((row["submitted_at"].isoformat(), str(row["id"])), total)


def _is_after(place: Place) -> ColumnElement[bool]:
    at, run = place.keys
    try:
        there = tuple_(literal(datetime.fromisoformat(at)), literal(UUID(run)))
    except ValueError as error:
        raise refused("is no cursor of this list") from error
    return tuple_(runs.c.submitted_at, runs.c.id) < there
