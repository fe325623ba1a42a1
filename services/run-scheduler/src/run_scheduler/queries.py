"""What the planner reads and notes: runs to plan, free places, retries due, cells handed out."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from sqlalchemy import ColumnElement, RowMapping, and_, exists, func, literal, or_, select, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection

from assay_contracts.run_events import SubmittedData
from assay_contracts.values import Outcome, RunStatus
from assay_contracts.work import DEFAULT_POOL
from run_scheduler.fairness import OpenRun
from run_scheduler.tables import (
    WHOLE_RUN,
    dispatches,
    pauses,
    plans,
    runs,
    slots,
    streaks,
    version_tasks,
    versions,
)


@dataclass(frozen=True, slots=True)
class PlannedRun:
    """A run as the planner needs it."""

    id: UUID
    workspace: str
    status: RunStatus
    stop_requested: bool
    submitted: SubmittedData
    submitted_event: UUID
    correlation_id: UUID
    scored: int
    unscored: int
    last_started_at: datetime | None
    spent_usd: float
    spent_tokens: int
    has_pauses: bool
    has_streaks: bool


async def open_runs(connection: AsyncConnection) -> list[OpenRun]:
    """Every run that has not ended, the oldest first."""
    ended = [status.value for status in RunStatus if status.is_terminal]
    environment = runs.c.submitted["environment"].astext
    found = await connection.execute(
        select(runs.c.id, runs.c.workspace, func.coalesce(environment, DEFAULT_POOL).label("pool"))
        .where(runs.c.status.not_in(ended))
        .order_by(runs.c.submitted_at, runs.c.id)
    )
    return [OpenRun(row.id, row.workspace, row.pool) for row in found]


async def waiting_in_queue(connection: AsyncConnection) -> dict[str, int]:
    """How many tries of each pool were handed out that no runner has begun."""
    found = await connection.execute(
        select(dispatches.c.pool, func.count().label("tries"))
        .where(dispatches.c.begun.is_(False))
        .group_by(dispatches.c.pool)
    )
    return {row.pool: row.tries for row in found}


async def planned_run(connection: AsyncConnection, run: UUID) -> PlannedRun | None:
    """A run as it stands in this transaction's snapshot; None where it was deleted."""
    found = await connection.execute(
        select(
            runs,
            exists().where(pauses.c.run == runs.c.id).label("has_pauses"),
            exists().where(streaks.c.run == runs.c.id).label("has_streaks"),
        ).where(runs.c.id == run)
    )
    row = found.mappings().first()
    return None if row is None else _planned(row)


def _planned(row: RowMapping) -> PlannedRun:
    return PlannedRun(
        id=row["id"],
        workspace=row["workspace"],
        status=RunStatus(row["status"]),
        stop_requested=row["stop_requested"] is not None,
        submitted=SubmittedData.model_validate(row["submitted"]),
        submitted_event=row["submitted_event"],
        correlation_id=row["correlation_id"],
        scored=row["passed"] + row["failed"],
        unscored=row["errored"] + row["cancelled"],
        last_started_at=row["last_started_at"],
        spent_usd=float(row["spent_usd"]),
        spent_tokens=row["spent_tokens"],
        has_pauses=row["has_pauses"],
        has_streaks=row["has_streaks"],
    )


async def version_state(connection: AsyncConnection, sync: UUID) -> tuple[bool, str | None]:
    """Whether the pinned task list is complete here, and why it failed if it did."""
    found = (
        await connection.execute(
            select(versions.c.complete, versions.c.failed).where(versions.c.sync == sync)
        )
    ).first()
    return (False, None) if found is None else (found.complete, found.failed)


async def runnable_positions(connection: AsyncConnection, sync: UUID) -> list[int]:
    """The places of all tasks of the pinned list that can be run, ascending."""
    found = await connection.scalars(
        select(version_tasks.c.position)
        .where(version_tasks.c.sync == sync, version_tasks.c.unavailable.is_(None))
        .order_by(version_tasks.c.position)
    )
    return list(found)


async def tasks_at(
    connection: AsyncConnection, sync: UUID, positions: Sequence[int]
) -> dict[int, RowMapping]:
    """Name, location and digest of the tasks at `positions`."""
    found = await connection.execute(
        select(version_tasks).where(
            version_tasks.c.sync == sync, version_tasks.c.position.in_(set(positions))
        )
    )
    return {row["position"]: row for row in found.mappings()}


async def task_named(connection: AsyncConnection, sync: UUID, name: str) -> RowMapping:
    """Location and digest of the task called `name`."""
    found = await connection.execute(
        select(version_tasks).where(version_tasks.c.sync == sync, version_tasks.c.name == name)
    )
    return found.mappings().one()


async def lock_plan(connection: AsyncConnection, run: UUID, agents: int) -> list[int] | None:
    """How many cells of each agent were handed out, locked for this transaction; None where
    another planner has it.

    The first time, what is already running is noted as handed out.
    """
    fresh = [0] * agents
    await connection.execute(insert(plans).values(run=run, begun=fresh).on_conflict_do_nothing())
    found: list[int] | None = await connection.scalar(
        select(plans.c.begun).where(plans.c.run == run).with_for_update(skip_locked=True)
    )
    if found == fresh:
        columns = (slots.c.id, slots.c.last_try, slots.c.run, literal(DEFAULT_POOL), literal(True))
        running = select(*columns).where(
            slots.c.run == run, slots.c.last_try > slots.c.graded_try, slots.c.not_before.is_(None)
        )
        await connection.execute(
            insert(dispatches)
            .from_select(["slot", "try_number", "run", "pool", "begun"], running)
            .on_conflict_do_nothing()
        )
    return found


async def paused(connection: AsyncConnection, run: UUID) -> dict[int | None, datetime | None]:
    """What is paused of a run, by agent (None: the whole run), and until when, if that is set."""
    found = await connection.execute(
        select(pauses.c.agent, pauses.c.until).where(pauses.c.run == run)
    )
    return {None if row.agent == WHOLE_RUN else row.agent: row.until for row in found}


async def handed_out(connection: AsyncConnection, run: UUID) -> int:
    """How many tries of the run are handed out and not yet judged."""
    counted = await connection.scalar(
        select(func.count()).select_from(dispatches).where(dispatches.c.run == run)
    )
    return int(counted or 0)


async def begun(connection: AsyncConnection, ids: Sequence[UUID]) -> set[UUID]:
    """Which of the slots have begun already, or are handed out."""
    known = select(slots.c.id).where(slots.c.id.in_(ids))
    noted = select(dispatches.c.slot).where(dispatches.c.slot.in_(ids))
    return set(await connection.scalars(known.union(noted)))


async def to_retry(connection: AsyncConnection, run: UUID, max_retries: int) -> list[RowMapping]:
    """Slots without a score whose last try was judged and that may have another, or must have
    one since they were reopened."""
    found = await connection.execute(
        select(slots)
        .where(slots.c.run == run, _may_have_another(max_retries))
        .order_by(slots.c.attempt, slots.c.task, slots.c.agent)
    )
    return list(found.mappings())


def _may_have_another(max_retries: int) -> ColumnElement[bool]:
    is_left = and_(slots.c.retryable, slots.c.last_try - slots.c.tries_before <= max_retries)
    return and_(
        slots.c.outcome == Outcome.ERRORED.value,
        slots.c.graded_try == slots.c.last_try,
        or_(slots.c.reopened, is_left),
    )


async def agents_with_retries(connection: AsyncConnection, run: UUID, max_retries: int) -> set[int]:
    """The agents of which a slot waits for another try, or may have one."""
    waits = and_(slots.c.last_try > slots.c.graded_try, _is_unscored())
    found = await connection.scalars(
        select(slots.c.agent)
        .where(slots.c.run == run, or_(_may_have_another(max_retries), waits))
        .distinct()
    )
    return set(found)


async def announced(
    connection: AsyncConnection, run: UUID, agents: Collection[int], now: datetime, limit: int
) -> list[RowMapping]:
    """Slots of some agents whose announced next try is due and not yet handed out."""
    found = await connection.execute(
        select(slots)
        .outerjoin(
            dispatches,
            and_(dispatches.c.slot == slots.c.id, dispatches.c.try_number == slots.c.last_try),
        )
        .where(
            slots.c.run == run,
            slots.c.agent.in_(agents),
            slots.c.last_try > slots.c.graded_try,
            slots.c.not_before <= now,
            dispatches.c.slot.is_(None),
            _is_unscored(),
        )
        .order_by(slots.c.not_before, slots.c.id)
        .limit(limit)
    )
    return list(found.mappings())


def _is_unscored() -> ColumnElement[bool]:
    """A late verdict of an earlier try may have scored a slot whose next try was announced."""
    return or_(slots.c.outcome.is_(None), slots.c.outcome == Outcome.ERRORED.value)


async def waiting_retries(connection: AsyncConnection, run: UUID) -> int:
    """How many slots without a score have a try announced that has no verdict yet."""
    counted = await connection.scalar(
        select(func.count())
        .select_from(slots)
        .where(slots.c.run == run, slots.c.last_try > slots.c.graded_try, _is_unscored())
    )
    return int(counted or 0)


async def note_dispatches(
    connection: AsyncConnection, run: UUID, pool: str, tries: Sequence[tuple[UUID, int]]
) -> None:
    """Note tries as handed out to a pool."""
    if tries:
        rows = [
            {"slot": slot, "try_number": number, "run": run, "pool": pool, "begun": False}
            for slot, number in tries
        ]
        await connection.execute(insert(dispatches).on_conflict_do_nothing(), rows)


async def move_plan(connection: AsyncConnection, run: UUID, begun: Sequence[int]) -> None:
    """Remember how many cells of each agent were handed out."""
    await connection.execute(update(plans).where(plans.c.run == run).values(begun=list(begun)))
