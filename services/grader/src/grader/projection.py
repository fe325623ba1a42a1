"""Run events to judged tries, a result for each slot and agent metrics; results to verdicts."""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from sqlalchemy import RowMapping, Table, delete, select, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection

from assay_contracts.benchmark_events import BenchmarkEvent, BenchmarkTasksSynced
from assay_contracts.run_events import (
    ResultGraded,
    ResultGradedData,
    ResultIngested,
    ResultIngestedData,
    RunDeleted,
    RunEvent,
    RunFailed,
    RunFinished,
    RunReopened,
    RunStopped,
    RunSubmitted,
    TryData,
)
from assay_contracts.values import BenchmarkPin
from assay_kernel.event_store import EventStore
from assay_kernel.outbox import Outbox, Outgoing
from assay_kernel.projection import Events, Projection
from assay_scoring.folds import AgentFold, TryKey, TryRecord
from assay_scoring.metrics import measure
from assay_scoring.verdicts import judge
from grader.fold_cache import AgentKey, FoldCache
from grader.judge_queries import note_events
from grader.judge_verdicts import graded
from grader.slot_results import show_slots
from grader.tables import agent_metrics, results, runs, tries

_FINISHED, _DELETED = "finished", "deleted"

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Told:
    """A fact about a try, with its sequence in the stream, and whether its run had finished."""

    sequence: int
    event: ResultIngested | ResultGraded
    settled: bool


class GradesProjection(Projection):
    """`runs`, `tries`, `results` and `agent_metrics`; and a `result-graded` for each
    `result-ingested`.

    Of a run that was deleted nothing is left but its row in `runs`, and what is told of it later
    changes nothing.
    """

    name = "grades"
    stream = RunEvent.stream
    subjects: Sequence[str] = ("runs.>",)
    tables: Sequence[Table] = (runs, tries, results, agent_metrics)
    version = 3

    def __init__(
        self,
        outbox: Outbox,
        store: EventStore,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        """`store` is where the categories of a run's pinned tasks are read."""
        self._outbox = outbox
        self._store = store
        self._now = now
        self._folds = FoldCache()

    async def apply(self, connection: AsyncConnection, events: Events) -> None:
        """Write the rows that follow from `events`."""
        ends = await _ends(connection, events)
        gone = {run for run, end in ends.items() if end == _DELETED}
        deleted = {stored.event.run for stored in events if isinstance(stored.event, RunDeleted)}
        changed: dict[UUID, str | None] = {}
        told: list[Told] = []
        last: dict[AgentKey, int] = {}
        for stored in events:
            if isinstance(stored.event, RunEvent) and stored.event.run in gone | deleted:
                if isinstance(stored.event, RunSubmitted):
                    await self._insert_run(connection, stored.event)
                continue
            match stored.event:
                case RunSubmitted() as event:
                    await self._insert_run(connection, event)
                    agents = range(len(event.data.agents))
                    last |= {(event.run, agent): stored.sequence for agent in agents}
                case ResultIngested() | ResultGraded() as event:
                    settled = ends.get(event.run) == _FINISHED
                    told.append(Told(stored.sequence, event, settled))
                    last[event.run, event.data.slot.agent] = stored.sequence
                case RunFinished() | RunStopped() | RunFailed() as event:
                    ends[event.run] = changed[event.run] = event.type
                    last |= await _agents_at(connection, event.run, stored.sequence)
                case RunReopened() as event:
                    ends[event.run] = changed[event.run] = None
                    last |= await _agents_at(connection, event.run, stored.sequence)
                case _:
                    pass
        for run, end in changed.items():
            await connection.execute(update(runs).where(runs.c.id == run).values(ended=end))
        folds = await self._take(connection, last)
        known = await _measured_runs(connection, {run for run, _ in folds})
        await _write_tries(connection, told, folds)
        await show_slots(connection, _categories_of(told, known))
        await self._measure(connection, folds, last, known)
        if deleted:
            await _forget(connection, deleted)

    async def _take(
        self, connection: AsyncConnection, last: Mapping[AgentKey, int]
    ) -> dict[AgentKey, AgentFold]:
        """The folds of the agents that a batch is about, as they were before it."""
        found = await connection.execute(
            select(agent_metrics.c.run, agent_metrics.c.agent, agent_metrics.c.sequence).where(
                agent_metrics.c.run.in_({run for run, _ in last})
            )
        )
        stands_at = {(row.run, row.agent): row.sequence for row in found}
        return {
            key: await self._folds.take(connection, key, stands_at.get(key)) for key in sorted(last)
        }

    async def _measure(
        self,
        connection: AsyncConnection,
        folds: Mapping[AgentKey, AgentFold],
        last: Mapping[AgentKey, int],
        known: Mapping[UUID, RowMapping],
    ) -> None:
        """Measure each agent anew, and keep its fold for the next batch."""
        rows = []
        for (run, agent), fold in folds.items():
            row = known[run]
            expected = row["tasks"] * row["attempts"]
            # In a thread: an agent can have many thousand tries, and status must be answered.
            measures = await asyncio.to_thread(
                measure,
                fold,
                expected=expected,
                ended=row["ended"] is not None,
                categories=row["categories"],
            )
            rows.append(
                {
                    "run": run,
                    "agent": agent,
                    "expected": expected,
                    "slots": len({(record.task, record.attempt) for record in fold}),
                    "sequence": last[run, agent],
                    "pass_at_1": measures.pass_at_1 and measures.pass_at_1.value,
                    "measures": measures.model_dump(mode="json"),
                }
            )
            self._folds.keep(connection, (run, agent), last[run, agent], fold)
        if rows:
            statement = insert(agent_metrics)
            changed = {
                name: statement.excluded[name]
                for name in ("slots", "sequence", "pass_at_1", "measures")
            }
            await connection.execute(
                statement.on_conflict_do_update(index_elements=["run", "agent"], set_=changed),
                rows,
            )

    async def _insert_run(self, connection: AsyncConnection, event: RunSubmitted) -> None:
        data = event.data
        await connection.execute(
            insert(runs)
            .values(
                id=event.run,
                workspace=event.workspace,
                agents=len(data.agents),
                tasks=data.selection.task_count,
                attempts=data.execution.attempts_per_task,
                pass_threshold=data.execution.pass_threshold,
                reward_key=data.execution.reward_key,
                ended=None,
                categories=await self._categories(data.benchmark),
            )
            .on_conflict_do_nothing()
        )

    async def _categories(self, pin: BenchmarkPin) -> dict[str, str]:
        """The category of each task of the pinned list that has one.

        Read out of the stream: the list was complete before anybody could submit a run on it.
        """
        told = f"benchmarks.{pin.owner}.{pin.id}.tasks-synced"
        latest = await self._store.last_sequence(BenchmarkEvent.stream)
        found: dict[str, str] = {}
        async for stored in self._store.history(BenchmarkEvent.stream, [told], until=latest):
            event = stored.event
            if isinstance(event, BenchmarkTasksSynced) and event.data.sync == pin.sync:
                found |= {task.name: task.category for task in event.data.tasks if task.category}
        return found

    async def react(self, connection: AsyncConnection, events: Events) -> None:
        """Grade each result that arrived, but those that wait for the run's own judge."""
        judged = await note_events(connection, events)
        arrived = [
            stored.event
            for stored in events
            if isinstance(stored.event, ResultIngested) and stored.event.id not in judged
        ]
        if not arrived:
            return
        known = await _runs(connection, {event.run for event in arrived})
        verdicts = [
            _verdict(event, known[event.run], self._now())
            for event in arrived
            if known[event.run]["ended"] != _DELETED
        ]
        await self._outbox.write(
            connection,
            [
                Outgoing.fact(verdict, verdict.data.message_id(verdict.run, verdict.type))
                for verdict in verdicts
            ],
        )


def _verdict(event: ResultIngested, run: RowMapping, now: datetime) -> ResultGraded:
    threshold = run["pass_threshold"]
    verdict = judge(event.data, pass_threshold=threshold, reward_key=run["reward_key"])
    return graded(event, verdict, pass_threshold=threshold, now=now)


async def _runs(connection: AsyncConnection, ids: Iterable[UUID]) -> dict[UUID, RowMapping]:
    found = await connection.execute(select(runs).where(runs.c.id.in_(set(ids))))
    return {row["id"]: row for row in found.mappings()}


async def _measured_runs(
    connection: AsyncConnection, ids: Iterable[UUID]
) -> dict[UUID, RowMapping]:
    """What measuring needs of runs; their categories are long.

    Raises:
        LookupError: one was never submitted.
    """
    wanted = set(ids)
    found = await connection.execute(
        select(runs.c.id, runs.c.tasks, runs.c.attempts, runs.c.ended, runs.c.categories).where(
            runs.c.id.in_(wanted)
        )
    )
    known = {row["id"]: row for row in found.mappings()}
    if missing := wanted - known.keys():
        raise LookupError(f"results of runs that were never submitted: {sorted(missing)}")
    return known


def _categories_of(
    told: Iterable[Told], known: Mapping[UUID, RowMapping]
) -> dict[UUID, str | None]:
    """The category of each slot that was told about."""
    return {
        one.event.data.slot.id(one.event.run): known[one.event.run]["categories"].get(
            one.event.data.slot.task
        )
        for one in told
    }


async def _forget(connection: AsyncConnection, deleted: set[UUID]) -> None:
    for table in (tries, results, agent_metrics):
        await connection.execute(delete(table).where(table.c.run.in_(deleted)))
    await connection.execute(update(runs).where(runs.c.id.in_(deleted)).values(ended=_DELETED))


async def _ends(connection: AsyncConnection, events: Events) -> dict[UUID, str | None]:
    """How each run that the events are about had ended before them, if it had."""
    told = {stored.event.run for stored in events if isinstance(stored.event, RunEvent)}
    found = await connection.execute(select(runs.c.id, runs.c.ended).where(runs.c.id.in_(told)))
    return {row.id: row.ended for row in found}


async def _agents_at(connection: AsyncConnection, run: UUID, sequence: int) -> dict[AgentKey, int]:
    count = await connection.scalar(select(runs.c.agents).where(runs.c.id == run))
    return {(run, agent): sequence for agent in range(count or 0)}


async def _write_tries(
    connection: AsyncConnection,
    told: Iterable[Told],
    folds: Mapping[AgentKey, AgentFold],
) -> None:
    """Fold results and verdicts, and write the tries that they change."""
    ingested: list[Row] = []
    verdicts: dict[tuple[UUID, int, int], Row] = {}
    for one in told:
        event, sequence = one.event, one.sequence
        fold, slot = folds[event.run, event.data.slot.agent], event.data.slot.id(event.run)
        if isinstance(event, ResultIngested):
            if fold.ingest(event.data):
                columns = _result_columns(event.data) | {"ingested_at": sequence}
                ingested.append(_key_columns(event) | columns)
            continue
        for record in fold.grade(event.data, settled=one.settled):
            key = (slot, record.try_number, record.delivery)
            if key in verdicts:
                verdicts[key]["counted"] = record.counted
            elif record.key == _record_key(event.data):
                columns = _verdict_columns(event.data, record) | {"graded_at": sequence}
                verdicts[key] = _key_columns(event) | columns
            else:
                await _uncount(connection, key)
    await _upsert(connection, ingested, _RESULT_COLUMNS)
    await _upsert(connection, list(verdicts.values()), _VERDICT_COLUMNS)


def _record_key(data: TryData) -> TryKey:
    return data.slot.task, data.slot.attempt, data.try_number, data.delivery


_RESULT_COLUMNS = (
    *("rewards", "exception", "runner", "environment", "harness_version", "started_at"),
    *("finished_at", "seconds", "durations", "input_tokens", "cached_tokens", "output_tokens"),
    *("total_tokens", "cost_usd", "artifacts", "ingested_at"),
)
_VERDICT_COLUMNS = (
    *("counted", "outcome", "reward", "reward_rule", "cause", "reason", "judge", "graded_at"),
)


def _key_columns(event: ResultIngested | ResultGraded) -> Row:
    slot = event.data.slot
    return {
        "slot": slot.id(event.run),
        "try_number": event.data.try_number,
        "delivery": event.data.delivery,
        "run": event.run,
        "agent": slot.agent,
        "task": slot.task,
        "attempt": slot.attempt,
    }


def _result_columns(data: ResultIngestedData) -> Row:
    return {
        "counted": False,
        "rewards": data.rewards,
        "exception": data.exception and data.exception.model_dump(mode="json"),
        "runner": data.runner,
        "environment": data.environment,
        "harness_version": data.harness_version,
        "started_at": data.started_at,
        "finished_at": data.finished_at,
        "seconds": data.duration_seconds,
        "durations": data.durations.model_dump(),
        **data.usage.model_dump(),
        "artifacts": data.artifacts and data.artifacts.model_dump(),
    }


def _verdict_columns(data: ResultGradedData, record: TryRecord) -> Row:
    return {
        "counted": record.counted,
        "outcome": data.outcome.value,
        "reward": data.reward,
        "reward_rule": data.reward_rule,
        "cause": data.cause and data.cause.value,
        "reason": data.reason,
        "judge": data.judge and data.judge.model_dump(),
    }


async def _upsert(connection: AsyncConnection, rows: Sequence[Row], columns: Sequence[str]) -> None:
    """Insert tries, or write `columns` where the try is there already."""
    if not rows:
        return
    statement = insert(tries)
    await connection.execute(
        statement.on_conflict_do_update(
            index_elements=["slot", "try_number", "delivery"],
            set_={name: statement.excluded[name] for name in columns},
        ),
        rows,
    )


async def _uncount(connection: AsyncConnection, key: tuple[UUID, int, int]) -> None:
    """A try of an earlier batch that counted gives way to another of its slot."""
    slot, try_number, delivery = key
    await connection.execute(
        update(tries)
        .where(
            tries.c.slot == slot,
            tries.c.try_number == try_number,
            tries.c.delivery == delivery,
        )
        .values(counted=False)
    )
