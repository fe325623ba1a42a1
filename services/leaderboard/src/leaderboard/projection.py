"""The decisions on runs to leaderboards.

When a run ends, its results are folded out of the stream, up to the event that ended it, and kept
by agent and task; its benchmark's leaderboard is then made anew from all runs, so that no stale row
can be left behind. What an earlier ending left is kept as well: from it the standings of a past
moment are made.
"""

import asyncio
from collections.abc import Sequence
from uuid import UUID

from sqlalchemy import Table, delete, select, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection

from assay_contracts.run_events import (
    ResultGraded,
    ResultIngested,
    RunDeleted,
    RunEvent,
    RunFailed,
    RunFinished,
    RunReopened,
    RunStopped,
    RunSubmitted,
)
from assay_contracts.values import RunStatus
from assay_kernel.event_store import EventStore
from assay_kernel.projection import Events, Projection
from assay_scoring.folds import RunFold
from assay_scoring.standings import AgentScores, choose, rank
from leaderboard import queries
from leaderboard.tables import endings, not_ranked, runs, scores, standings

Board = tuple[str, UUID]

_END = {
    RunFinished: RunStatus.FINISHED,
    RunStopped: RunStatus.STOPPED,
    RunFailed: RunStatus.FAILED,
}


class StandingsProjection(Projection):
    """`runs`, `endings` and `scores` as the ground; `standings` and `not_ranked` to be shown."""

    name = "standings"
    stream = RunEvent.stream
    subjects: Sequence[str] = ("runs.*.*.lifecycle.>",)
    tables: Sequence[Table] = (runs, endings, scores, standings, not_ranked)
    version = 2

    def __init__(self, store: EventStore) -> None:
        """`store` is where the results of a run are read when it ends."""
        self._store = store

    async def apply(self, connection: AsyncConnection, events: Events) -> None:
        """Write the rows that follow from `events`."""
        boards: set[Board] = set()
        for stored in events:
            match stored.event:
                case RunSubmitted() as event:
                    await _insert_run(connection, event, stored.sequence)
                    boards |= await _board_of(connection, event.run)
                case RunFinished() | RunStopped() | RunFailed() as event:
                    await self._end(connection, event, stored.sequence)
                    boards |= await _board_of(connection, event.run)
                case RunReopened() as event:
                    await _reopen(connection, event.run, stored.sequence)
                    boards |= await _board_of(connection, event.run)
                case RunDeleted() as event:
                    await _delete(connection, event.run, stored.sequence)
                    boards |= await _board_of(connection, event.run)
                case _:
                    pass
        for workspace, benchmark in sorted(boards):
            await _make_board(connection, workspace, benchmark)

    async def react(self, connection: AsyncConnection, events: Events) -> None:
        """Nothing follows but rows."""

    async def _end(
        self, connection: AsyncConnection, event: RunFinished | RunStopped | RunFailed, at: int
    ) -> None:
        """Keep what each agent of the run has done up to here."""
        fold = RunFold(event.run)
        own = f"runs.{event.workspace}.{event.run}"
        told = [f"{own}.attempts.{kind.model_fields['type'].default}" for kind in _RESULTS]
        told.append(f"{own}.lifecycle.>")
        async for stored in self._store.history(RunEvent.stream, told, until=at):
            fold.apply(stored.event)
        found = await connection.execute(select(runs.c.agents).where(runs.c.id == event.run))
        listed = found.scalar_one_or_none()
        if listed is None:
            raise LookupError(f"the run {event.run} ended, but was never submitted")
        await connection.execute(
            insert(endings)
            .values(run=event.run, ended=at, until=None, status=_END[type(event)].value)
            .on_conflict_do_nothing()
        )
        rows = [
            {"run": event.run, "agent": index, "ended": at}
            | AgentScores.of(fold.agent(index)).to_columns()
            for index in range(len(listed))
        ]
        await connection.execute(insert(scores).on_conflict_do_nothing(), rows)


_RESULTS = (ResultIngested, ResultGraded)


async def _insert_run(connection: AsyncConnection, event: RunSubmitted, sequence: int) -> None:
    data = event.data
    await connection.execute(
        insert(runs)
        .values(
            id=event.run,
            workspace=event.workspace,
            name=data.name,
            benchmark=data.benchmark.id,
            version=data.benchmark.version,
            digest=data.benchmark.digest,
            task_set=data.selection.task_set,
            tasks=data.selection.task_count,
            attempts=data.execution.attempts_per_task,
            agents=[
                {"harness": agent.harness, "model": agent.model_label} for agent in data.agents
            ],
            imported=data.imported is not None,
            pass_threshold=data.execution.pass_threshold,
            judge_model=data.execution.judge_model,
            submitted=sequence,
        )
        .on_conflict_do_nothing()
    )


async def _reopen(connection: AsyncConnection, run: UUID, at: int) -> None:
    await connection.execute(
        update(endings).where(endings.c.run == run, endings.c.until.is_(None)).values(until=at)
    )


async def _delete(connection: AsyncConnection, run: UUID, at: int) -> None:
    """Leave the run out from here on; the standings of an earlier moment stay what they were."""
    await connection.execute(update(runs).where(runs.c.id == run).values(deleted=at))


async def _board_of(connection: AsyncConnection, run: UUID) -> set[Board]:
    found = await connection.execute(
        select(runs.c.workspace, runs.c.benchmark).where(runs.c.id == run)
    )
    return {(row.workspace, row.benchmark) for row in found}


async def _make_board(connection: AsyncConnection, workspace: str, benchmark: UUID) -> None:
    chosen, unranked = choose(await queries.candidates(connection, workspace, benchmark))
    entries = await queries.entries(connection, chosen)
    # In a thread: intervals and tests take a while, and the service must go on answering.
    ranked = await asyncio.to_thread(rank, entries)
    board = {"workspace": workspace, "benchmark": benchmark}
    for shown in (standings, not_ranked):
        await connection.execute(
            delete(shown).where(shown.c.workspace == workspace, shown.c.benchmark == benchmark)
        )
    rows = [
        board
        | {
            "metric": metric,
            "run": standing.run_id,
            "agent": standing.agent,
            "place": place,
            "standing": standing.model_dump(mode="json"),
        }
        for metric, listed in ranked.items()
        for place, standing in enumerate(listed)
    ]
    if rows:
        await connection.execute(insert(standings), rows)
    left_out = [
        board
        | {
            "run": one.run_id,
            "agent": one.agent,
            "place": place,
            "entry": one.model_dump(mode="json"),
        }
        for place, one in enumerate(unranked)
    ]
    if left_out:
        await connection.execute(insert(not_ranked), left_out)
