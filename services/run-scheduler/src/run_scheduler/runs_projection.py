"""Run events to runs and their slots, and the notes that end with each verdict.

A slot has a row from its first event on; those without one have not begun. A run's counters are
kept as the slots' counted verdicts change, so that a list of runs needs no counting.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any
from uuid import UUID

from sqlalchemy import Table, bindparam, delete, func, select, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection

from assay_contracts.envelope import Event
from assay_contracts.lifecycle import counts_over
from assay_contracts.run_events import (
    AttemptEvent,
    AttemptRetried,
    AttemptStarted,
    LifecycleEvent,
    ResultGraded,
    RunDeleted,
    RunEvent,
    RunFailed,
    RunFinished,
    RunPaused,
    RunQueued,
    RunReopened,
    RunResumed,
    RunStarted,
    RunStopped,
    RunStopRequested,
    RunSubmitted,
    TryData,
)
from assay_contracts.values import Outcome, RunStatus
from assay_kernel.event_store import Recorded
from assay_kernel.projection import Events, Projection
from run_scheduler.spending import add_spending
from run_scheduler.streaks import StreakFold
from run_scheduler.tables import (
    WHOLE_RUN,
    dispatches,
    pauses,
    plans,
    runs,
    slots,
    spendings,
    streaks,
)

_COUNTERS = ("passed", "failed", "errored", "cancelled", "reopened")

Row = dict[str, Any]


class RunsProjection(Projection):
    """`runs` and `slots`, what is paused and why; a verdict also takes its try off the list of
    what is handed out."""

    name = "runs"
    stream = RunEvent.stream
    subjects: Sequence[str] = ("runs.>",)
    tables: Sequence[Table] = (runs, slots, pauses, streaks, spendings)
    version = 4

    async def apply(self, connection: AsyncConnection, events: Events) -> None:
        """Write the rows that follow from `events`."""
        deleted = {stored.event.run for stored in events if isinstance(stored.event, RunDeleted)}
        events = await _of_runs_that_are_there(connection, events, deleted)
        changed = await _slot_rows(connection, events)
        finished = await _finished_runs(connection, events)
        met = await StreakFold.of(connection, events)
        counted: dict[UUID, Counter[str]] = {}
        last: dict[UUID, int] = {}
        for stored in events:
            if isinstance(stored.event, RunEvent):
                met.take(stored.event)
            match stored.event:
                case LifecycleEvent() as event:
                    if isinstance(event, RunReopened):
                        _reopen(event, changed, counted.setdefault(event.run, Counter()))
                        finished.discard(event.run)
                    if isinstance(event, RunFinished):
                        finished.add(event.run)
                    await _apply_lifecycle(connection, event, stored)
                case AttemptEvent() as event:
                    counts = counted.setdefault(event.run, Counter())
                    _apply_attempt(event, changed, counts, settled=event.run in finished)
                case _:
                    continue
            last[stored.event.run] = stored.sequence
        if changed:
            await _write_slots(connection, changed.values())
        await met.write(connection)
        await add_spending(connection, events)
        for run, sequence in last.items():
            deltas = counted.get(run, Counter())
            await connection.execute(
                update(runs)
                .where(runs.c.id == run)
                .values(
                    sequence=sequence,
                    **{name: runs.c[name] + deltas[name] for name in _COUNTERS if deltas[name]},
                )
            )

        if deleted:
            await _forget(connection, deleted)

    async def react(self, connection: AsyncConnection, events: Events) -> None:
        """Note what has begun, and take what was judged, and what was deleted, off the list of
        what is handed out."""
        deleted = {stored.event.run for stored in events if isinstance(stored.event, RunDeleted)}
        for notes in (dispatches, plans) if deleted else ():
            await connection.execute(delete(notes).where(notes.c.run.in_(deleted)))
        begun = [
            {"b_slot": event.data.slot.id(event.run), "b_try": event.data.try_number}
            for event in (stored.event for stored in events)
            if isinstance(event, AttemptStarted)
        ]
        if begun:
            await connection.execute(
                update(dispatches)
                .where(
                    dispatches.c.slot == bindparam("b_slot"),
                    dispatches.c.try_number == bindparam("b_try"),
                )
                .values(begun=True),
                begun,
            )
        ended = [
            {"b_slot": event.data.slot.id(event.run), "b_try": event.data.try_number}
            for event in (stored.event for stored in events)
            if isinstance(event, ResultGraded)
        ]
        if ended:
            await connection.execute(
                delete(dispatches).where(
                    dispatches.c.slot == bindparam("b_slot"),
                    dispatches.c.try_number <= bindparam("b_try"),
                ),
                ended,
            )


async def _of_runs_that_are_there(
    connection: AsyncConnection, events: Events, deleted: set[UUID]
) -> Events:
    """`events` without those of runs that are deleted by them, or were before: facts can be late.

    It makes no difference in how many batches a stream is folded, since of a deleted run nothing is
    left whatever came before.
    """
    told = {stored.event.run for stored in events if isinstance(stored.event, AttemptEvent)}
    there = set(await connection.scalars(select(runs.c.id).where(runs.c.id.in_(told))))
    there |= {stored.event.run for stored in events if isinstance(stored.event, RunSubmitted)}
    return [
        stored
        for stored in events
        if isinstance(stored.event, RunEvent)
        and stored.event.run not in deleted
        and (isinstance(stored.event, LifecycleEvent) or stored.event.run in there)
    ]


async def _forget(connection: AsyncConnection, deleted: set[UUID]) -> None:
    for table in (slots, pauses, streaks, spendings):
        await connection.execute(delete(table).where(table.c.run.in_(deleted)))
    await connection.execute(delete(runs).where(runs.c.id.in_(deleted)))


async def _slot_rows(connection: AsyncConnection, events: Events) -> dict[UUID, Row]:
    """The rows, as they stand, of every slot that `events` touch."""
    ids: set[UUID] = set()
    for stored in events:
        match stored.event:
            case AttemptStarted() | AttemptRetried() | ResultGraded() as event:
                ids.add(event.data.slot.id(event.run))
            case RunReopened() as event:
                ids |= {slot.id(event.run) for slot in event.data.slots}
            case _:
                pass
    if not ids:
        return {}
    found = await connection.execute(select(slots).where(slots.c.id.in_(ids)))
    return {row["id"]: dict(row) for row in found.mappings()}


async def _finished_runs(connection: AsyncConnection, events: Events) -> set[UUID]:
    """The runs among those of `events` that had finished before: no verdict counts there."""
    ids = {stored.event.run for stored in events if isinstance(stored.event, ResultGraded)}
    if not ids:
        return set()
    found = await connection.scalars(
        select(runs.c.id).where(runs.c.id.in_(ids), runs.c.status == RunStatus.FINISHED.value)
    )
    return set(found)


def _apply_attempt(
    event: AttemptEvent, rows: dict[UUID, Row], counted: Counter[str], *, settled: bool
) -> None:
    match event:
        case AttemptStarted(data=data):
            row = _row(rows, event, data)
            row["last_try"] = max(row["last_try"], data.try_number)
        case AttemptRetried(data=data):
            row = _row(rows, event, data)
            if data.try_number > row["last_try"]:
                row |= {"last_try": data.try_number, "not_before": data.not_before}
        case ResultGraded(data=data):
            row = _row(rows, event, data)
            before = None if row["outcome"] is None else Outcome(row["outcome"])
            row["last_try"] = max(row["last_try"], data.try_number)
            row["graded_try"] = max(row["graded_try"], data.try_number)
            counts = not settled and counts_over(before, data.outcome)
            is_new = data.try_number > row["tries_before"] or data.outcome.is_scored
            if row["reopened"] and counts and is_new:
                row["reopened"] = False
                counted["reopened"] -= 1
            if counts:
                row |= {
                    "outcome": data.outcome.value,
                    "retryable": data.retryable,
                    "reason": data.reason,
                }
                if before is not None:
                    counted[before.value] -= 1
                counted[data.outcome.value] += 1
        case _:
            return
    row["last_event"] = event.id


def _reopen(event: RunReopened, rows: dict[UUID, Row], counted: Counter[str]) -> None:
    """Give each slot that has no score after all another try, and its retries anew."""
    for slot in event.data.slots:
        row = rows.get(slot.id(event.run))
        if row is None or row["outcome"] != Outcome.ERRORED.value or row["reopened"]:
            continue
        row |= {"reopened": True, "tries_before": row["last_try"], "last_event": event.id}
        row["reason"] = event.data.reason
        counted["reopened"] += 1


def _row(rows: dict[UUID, Row], event: AttemptEvent, data: TryData) -> Row:
    slot = data.slot
    return rows.setdefault(
        slot.id(event.run),
        {
            "id": slot.id(event.run),
            "run": event.run,
            "agent": slot.agent,
            "task": slot.task,
            "attempt": slot.attempt,
            "outcome": None,
            "last_try": 0,
            "graded_try": 0,
            "retryable": False,
            "reopened": False,
            "tries_before": 0,
            "reason": None,
            "not_before": None,
            "last_event": event.id,
        },
    )


async def _write_slots(connection: AsyncConnection, rows: Iterable[Row]) -> None:
    statement = insert(slots)
    columns = {
        name: statement.excluded[name]
        for name in (
            "outcome",
            "last_try",
            "graded_try",
            "retryable",
            "reopened",
            "tries_before",
            "reason",
            "not_before",
            "last_event",
        )
    }
    await connection.execute(
        statement.on_conflict_do_update(index_elements=["id"], set_=columns), list(rows)
    )


async def _apply_lifecycle(
    connection: AsyncConnection, event: LifecycleEvent, stored: Recorded[Event]
) -> None:
    if isinstance(event, RunSubmitted):
        await connection.execute(
            insert(runs).values(_run_row(event, stored)).on_conflict_do_nothing()
        )
        return
    if isinstance(event, RunPaused):
        await connection.execute(insert(pauses).values(_pause_row(event)).on_conflict_do_nothing())
        return
    if isinstance(event, RunResumed):
        await _end_pauses(connection, event.run, event.data.agent)
        return
    if isinstance(event, RunFinished | RunStopped | RunFailed | RunReopened):
        await _end_pauses(connection, event.run, None)
    changes = _lifecycle_changes(event)
    await connection.execute(update(runs).where(runs.c.id == event.run).values(**changes))


def _pause_row(event: RunPaused) -> Row:
    data = event.data
    return {
        "run": event.run,
        "agent": WHOLE_RUN if data.agent is None else data.agent,
        "reason": data.reason,
        "paused_by": event.actor,
        "since": event.occurred_at,
        "until": data.until,
    }


async def _end_pauses(connection: AsyncConnection, run: UUID, agent: int | None) -> None:
    """Take an agent's pause away, or all of the run (None)."""
    ended = delete(pauses).where(pauses.c.run == run)
    await connection.execute(ended if agent is None else ended.where(pauses.c.agent == agent))


def _run_row(event: RunSubmitted, stored: Recorded[Event]) -> Row:
    data = event.data
    return {
        "id": event.run,
        "workspace": event.workspace,
        "name": data.name,
        "status": RunStatus.PENDING.value,
        "benchmark": data.benchmark.id,
        "benchmark_name": data.benchmark.name,
        "sync": data.benchmark.sync,
        "submitted": data.model_dump(mode="json"),
        "submitted_event": event.id,
        "correlation_id": event.correlation_id,
        "submitted_at": event.occurred_at,
        "submitted_by": event.actor,
        "expected_results": data.expected_results,
        "passed": 0,
        "failed": 0,
        "errored": 0,
        "cancelled": 0,
        "sequence": stored.sequence,
    }


def _lifecycle_changes(event: LifecycleEvent) -> Row:
    match event:
        case RunQueued():
            return {"status": RunStatus.QUEUED.value}
        case RunStarted():
            first = func.coalesce(runs.c.started_at, event.occurred_at)
            last = {"started_at": first, "last_started_at": event.occurred_at}
            return {"status": RunStatus.RUNNING.value, **last}
        case RunStopRequested(data=data):
            return {"stop_requested": data.reason}
        case RunFinished():
            return {"status": RunStatus.FINISHED.value, "ended_at": event.occurred_at}
        case RunStopped(data=data):
            ended = {"reason": data.reason, "ended_at": event.occurred_at}
            return {"status": RunStatus.STOPPED.value, **ended}
        case RunFailed(data=data):
            ended = {"reason": data.reason, "ended_at": event.occurred_at}
            return {"status": RunStatus.FAILED.value, **ended}
        case RunReopened():
            return {
                "status": RunStatus.QUEUED.value,
                "stop_requested": None,
                "reason": None,
                "ended_at": None,
            }
        case _:
            raise TypeError(f"{event.type} changes no run")
