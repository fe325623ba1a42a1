"""Who was a candidate for a leaderboard, and with which scores, now or at a past sequence."""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from sqlalchemy import ColumnElement, RowMapping, and_, or_, select, true
from sqlalchemy.ext.asyncio import AsyncConnection

from assay_contracts.values import RunStatus
from assay_scoring.standings import AgentScores, Candidate, Entry
from leaderboard.tables import endings, runs, scores

_RUN = (
    *(runs.c.id, runs.c.name, runs.c.version, runs.c.digest, runs.c.task_set, runs.c.tasks),
    *(runs.c.attempts, runs.c.agents, runs.c.imported, runs.c.submitted),
    *(runs.c.pass_threshold, runs.c.judge_model),
)


def _in_force(at: int | None) -> ColumnElement[bool]:
    """An ending that stands: at a sequence, or now."""
    if at is None:
        return endings.c.until.is_(None)
    return and_(endings.c.ended <= at, or_(endings.c.until.is_(None), endings.c.until > at))


def _is_there(at: int | None) -> ColumnElement[bool]:
    """A run that is not deleted: at a sequence, or now."""
    kept = runs.c.deleted.is_(None)
    return kept if at is None else or_(kept, runs.c.deleted > at)


async def candidates(
    connection: AsyncConnection, workspace: str, benchmark: UUID, at: int | None = None
) -> list[Candidate]:
    """Every agent of every run on the benchmark, as it stands now, or stood at a sequence.

    A run that was deleted is none of them from that sequence on.
    """
    ending = and_(endings.c.run == runs.c.id, _in_force(at))
    found = await connection.execute(
        select(*_RUN, endings.c.ended, endings.c.status, scores.c.agent, scores.c.results)
        .outerjoin(endings, ending)
        .outerjoin(scores, and_(scores.c.run == runs.c.id, scores.c.ended == endings.c.ended))
        .where(
            runs.c.workspace == workspace,
            runs.c.benchmark == benchmark,
            true() if at is None else runs.c.submitted <= at,
            _is_there(at),
        )
    )
    return [
        _candidate(row, index)
        for row in found.mappings()
        for index in (range(len(row["agents"])) if row["agent"] is None else [row["agent"]])
    ]


def _candidate(row: RowMapping, index: int) -> Candidate:
    agent: dict[str, Any] = row["agents"][index]
    return Candidate(
        run=row["id"],
        run_name=row["name"],
        agent=index,
        harness=agent["harness"],
        model=agent["model"],
        task_set=row["task_set"],
        version=row["version"],
        digest=row["digest"],
        imported=row["imported"],
        status=RunStatus.RUNNING if row["status"] is None else RunStatus(row["status"]),
        submitted=row["submitted"],
        ended=row["ended"],
        expected=row["tasks"] * row["attempts"],
        results=row["results"] or 0,
        pass_threshold=row["pass_threshold"],
        judge_model=row["judge_model"],
    )


async def entries(
    connection: AsyncConnection, chosen: Sequence[Candidate], at: int | None = None
) -> list[Entry]:
    """The chosen candidates with their scores, in the same order."""
    found = await connection.execute(
        select(scores)
        .join(endings, and_(endings.c.run == scores.c.run, endings.c.ended == scores.c.ended))
        .where(_in_force(at), scores.c.run.in_({one.run for one in chosen}))
    )
    by_agent = {(row["run"], row["agent"]): dict(row) for row in found.mappings()}
    return [Entry(one, AgentScores.from_columns(by_agent[one.run, one.agent])) for one in chosen]
