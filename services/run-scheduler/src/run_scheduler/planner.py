"""The planner: what happens next in each open run, over and over.

Each pass looks at a run's rows and does what they call for: admit, start, announce retries, hand
out work up to `max_concurrent_attempts` and to what the queue may hold, pause and resume agents,
finish, stop. Handing out is a transaction that notes the tries and puts their work orders into the
outbox; the run's plan row is locked meanwhile, so that two schedulers never hand out more than the
limit between them. Decisions go to the stream, which lets each be taken once.
"""

import asyncio
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from uuid import UUID, uuid5

import structlog
from nats.errors import Error as NatsError
from sqlalchemy import RowMapping
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from assay_contracts.envelope import UnknownEventError
from assay_contracts.identifiers import Slot, parse_positions
from assay_contracts.run_events import AttemptRetried, AttemptRetriedData
from assay_contracts.values import RunStatus
from assay_contracts.work import DEFAULT_POOL, WorkOrder
from assay_kernel.database import is_outage
from assay_kernel.outbox import Outbox, Outgoing
from run_scheduler import queries
from run_scheduler.breaker import Breaker, over
from run_scheduler.domain import (
    Admit,
    Cells,
    Command,
    Fail,
    Finish,
    RequestStop,
    Start,
    Stop,
    retry_delay,
)
from run_scheduler.fairness import OpenRun, Room, Turns
from run_scheduler.lifecycle import ACTOR, Lifecycles
from run_scheduler.limits import missed_deadline, spent_budget
from run_scheduler.queries import PlannedRun
from run_scheduler.settings import SchedulerSettings
from run_scheduler.streaks import streaks_of

_SERIALIZATION_FAILURE = "40001"

log = structlog.get_logger(__name__)


Share = Callable[[Mapping[str, int]], int]


@dataclass(frozen=True, slots=True)
class Step:
    """What a look at a run came to: a decision, tries handed out, messages in the outbox.

    `is_short` where the run could have taken more than its share.
    """

    command: Command | None = None
    orders: int = 0
    is_short: bool = False
    has_messages: bool = False


class Planner:
    """Plans every open run until cancelled."""

    def __init__(
        self,
        engine: AsyncEngine,
        outbox: Outbox,
        lifecycles: Lifecycles,
        settings: SchedulerSettings,
        *,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self._engine = engine
        self._outbox = outbox
        self._lifecycles = lifecycles
        self._settings = settings
        self._now = now
        self._jitter = jitter
        self._changed = asyncio.Event()
        self._changed.set()
        self._cells: dict[UUID, Cells] = {}
        self._turns = Turns()
        self._breaker = Breaker(
            slots=settings.scheduler_breaker_slots,
            shortest=settings.scheduler_pause_shortest,
            longest=settings.scheduler_pause_longest,
        )

    def wake(self) -> None:
        """Tell the planner that rows have changed."""
        self._changed.set()

    async def run(self) -> None:
        """Plan whenever rows change, and every tick for retries that fall due."""
        while True:
            self._changed.clear()
            try:
                await self.plan_all()
            except Exception as error:
                if not (is_outage(error) or isinstance(error, NatsError | TimeoutError)):
                    raise
                log.warning("planner-waits", error=str(error))
            try:
                async with asyncio.timeout(self._settings.scheduler_tick):
                    await self._changed.wait()
            except TimeoutError:
                continue

    async def plan_all(self) -> None:
        """One pass over all open runs, each in its turn."""
        async with self._engine.connect() as connection:
            open_runs = await queries.open_runs(connection)
        order = self._turns.order(open_runs)
        room = Room(self._settings.scheduler_queue_ahead, order)
        left_short: list[OpenRun] = []
        for run in order:
            try:
                step = await self.plan(run.id, partial(room.share, run))
            except DBAPIError as error:
                if getattr(error.orig, "sqlstate", None) != _SERIALIZATION_FAILURE:
                    raise
                self.wake()  # another planner was at the run in the same moment
                continue
            finally:
                room.passed(run)
            if step.orders:
                self._turns.served(run)
            if step.is_short:
                left_short.append(run)
            if step.command is not None:
                try:
                    await self._lifecycles.decide(run.workspace, run.id, step.command)
                except UnknownEventError as error:  # its letter waits; the other runs go on
                    log.error("run-unreadable", run=str(run.id), why=str(error))
        if left_short:
            async with self._engine.connect() as connection:
                waiting = await queries.waiting_in_queue(connection)
            if any(room.left(run, waiting) for run in left_short):
                self.wake()  # what others left is for those that could have taken more
        self._turns.forget_others(open_runs)
        known = {run.id for run in open_runs}
        self._cells = {run: cells for run, cells in self._cells.items() if run in known}

    async def plan(self, run_id: UUID, share: Share) -> Step:
        """Hand out what can be handed out; the decision that the run is ready for, if any.

        All that is read belongs to one snapshot. Read statement by statement, a verdict that is
        folded in between could be missed by the question for retries and be seen by the question
        for what is still out, and the run would be finished too early.

        Args:
            run_id: the run.
            share: how many tries may be handed out at most, given how many wait in each pool.
        """
        async with self._engine.connect() as plain:
            connection = await plain.execution_options(isolation_level="REPEATABLE READ")
            async with connection.begin():
                step = await self._step(connection, run_id, share)
        if step.has_messages:
            self._outbox.wake()
        return step

    async def _step(self, connection: AsyncConnection, run_id: UUID, share: Share) -> Step:
        run = await queries.planned_run(connection, run_id)
        if run is None:  # it ended, and was deleted, since the open runs were listed
            return Step(None)
        if run.stop_requested:
            idle = await queries.handed_out(connection, run.id) == 0
            return Step(Stop() if idle else None)
        match run.status:
            case RunStatus.PENDING:
                return Step(await self._admit(connection, run))
            case RunStatus.QUEUED:
                return Step(Start())
            case RunStatus.RUNNING:
                return await self._run(connection, run, share)
            case _:
                return Step()  # it has ended since the list was read

    async def _admit(self, connection: AsyncConnection, run: PlannedRun) -> Command | None:
        sync = run.submitted.benchmark.sync
        complete, failed = await queries.version_state(connection, sync)
        if failed is not None:
            return Fail(reason=f"the task list that the run is pinned to failed: {failed}")
        if not complete:
            return None
        cells = await self._cells_of(connection, run)
        if cells.count != run.submitted.expected_results:
            return Fail(
                reason=f"the pinned task list gives {cells.count} results, "
                f"but {run.submitted.expected_results} were submitted; submit the run again"
            )
        return Admit(expected_results=cells.count)

    async def _run(self, connection: AsyncConnection, run: PlannedRun, share: Share) -> Step:
        begun = await queries.lock_plan(connection, run.id, len(run.submitted.agents))
        if begun is None:
            return Step()
        cells = await self._cells_of(connection, run)
        if run.submitted.imported is not None:
            return Step(_finished(run, cells))  # its results are told, and nothing is handed out
        execution = run.submitted.execution
        late = missed_deadline(execution, run.last_started_at, self._now())
        if late is not None:
            return Step(_finished(run, cells) or RequestStop(late))
        spent = spent_budget(execution, run.spent_usd, run.spent_tokens)
        if spent is not None:
            idle = await queries.handed_out(connection, run.id) == 0
            return Step((_finished(run, cells) or RequestStop(spent)) if idle else None)
        paused = await queries.paused(connection, run.id) if run.has_pauses else {}
        left = {agent for agent, number in enumerate(begun) if number < cells.per_agent}
        pause = await self._pause_or_resume(connection, run, paused, left)
        if pause is not None:
            return Step(pause)
        agents = [] if None in paused else sorted(set(range(cells.agents)) - paused.keys())
        messages = await self._announce_retries(connection, run)
        out = await queries.handed_out(connection, run.id)
        free = wanted = execution.max_concurrent_attempts - out
        if agents and wanted > 0:
            free = min(wanted, share(await queries.waiting_in_queue(connection)))
        orders = await self._retries_due(connection, run, agents, free)
        fresh, moved = await self._fresh_orders(
            connection, run, cells, begun, agents, free - len(orders)
        )
        orders += fresh
        tries = [(order.slot.id(run.id), order.try_number) for order in orders]
        pool = run.submitted.environment or DEFAULT_POOL
        await queries.note_dispatches(connection, run.id, pool, tries)
        if moved != begun:
            await queries.move_plan(connection, run.id, moved)
        messages += [
            Outgoing(order.subject, order.message_id, order.model_dump_json().encode())
            for order in orders
        ]
        await self._outbox.write(connection, messages)
        idle = not messages and out == 0 and sum(moved) == cells.count
        if idle and await queries.waiting_retries(connection, run.id) == 0:
            return Step(_finished(run, cells))
        is_short = 0 < len(orders) == free < wanted
        return Step(None, len(orders), is_short, bool(messages))

    async def _pause_or_resume(
        self,
        connection: AsyncConnection,
        run: PlannedRun,
        paused: Mapping[int | None, datetime | None],
        left: set[int],
    ) -> Command | None:
        """The end of a pause whose wait is over, or the pause of an agent that gets nowhere.

        `left` are the agents with cells that have not begun: one that has neither those nor retries
        before it has no use for a pause.
        """
        for resume in over(paused, self._now()):
            return resume
        met = await streaks_of(connection, run.id) if run.has_streaks else {}
        trips = list(self._breaker.trips(met, paused, self._now(), self._jitter()))
        if trips:
            most = run.submitted.execution.max_retries
            left = left | await queries.agents_with_retries(connection, run.id, most)
        return next((pause for pause in trips if pause.agent in left), None)

    async def _announce_retries(
        self, connection: AsyncConnection, run: PlannedRun
    ) -> list[Outgoing]:
        """An `attempt-retried` for each slot that may have another try.

        Its id follows from the slot and the try, so that two schedulers announce it once.
        """
        messages = []
        for row in await queries.to_retry(connection, run.id, run.submitted.execution.max_retries):
            next_try = row["last_try"] + 1
            delay = self._delay(next_try - row["tries_before"])
            data = AttemptRetriedData(
                slot=_slot(row),
                try_number=next_try,
                reason=row["reason"] or "the last try left no valid reward",
                not_before=self._now() + timedelta(seconds=delay),
            )
            event = AttemptRetried(
                id=uuid5(row["id"], f"attempt-retried {next_try}"),
                workspace=run.workspace,
                run=run.id,
                occurred_at=self._now(),
                actor=ACTOR,
                correlation_id=run.correlation_id,
                causation_id=row["last_event"],
                data=data,
            )
            messages.append(Outgoing.fact(event, data.message_id(run.id, event.type)))
        return messages

    def _delay(self, next_try: int) -> float:
        """Seconds before a try, counted from where the slot began or was reopened."""
        if next_try == 1:
            return 0.0
        return retry_delay(
            next_try,
            base=self._settings.scheduler_retry_base,
            longest=self._settings.scheduler_retry_longest,
            jitter=self._jitter(),
        )

    async def _retries_due(
        self, connection: AsyncConnection, run: PlannedRun, agents: Sequence[int], limit: int
    ) -> list[WorkOrder]:
        if limit <= 0:
            return []
        due = await queries.announced(connection, run.id, agents, self._now(), limit)
        sync = run.submitted.benchmark.sync
        return [
            _order(
                run,
                _slot(row),
                row["last_try"],
                await queries.task_named(connection, sync, row["task"]),
                cause=row["last_event"],
            )
            for row in due
        ]

    async def _fresh_orders(
        self,
        connection: AsyncConnection,
        run: PlannedRun,
        cells: Cells,
        begun: Sequence[int],
        agents: Sequence[int],
        limit: int,
    ) -> tuple[list[WorkOrder], list[int]]:
        """Orders for the agents' next cells that have not begun, and how many have afterwards."""
        orders: list[WorkOrder] = []
        moved = list(begun)
        while len(orders) < limit:
            chosen = cells.following(moved, agents, limit - len(orders))
            if not chosen:
                break
            positions = [cells.position(number) for _, number in chosen]
            tasks = await queries.tasks_at(connection, run.submitted.benchmark.sync, positions)
            names = {position: str(task["name"]) for position, task in tasks.items()}
            slots = [cells.slot(agent, number, names) for agent, number in chosen]
            known = await queries.begun(connection, [slot.id(run.id) for slot in slots])
            orders += [
                _order(run, slot, 1, tasks[position], cause=run.submitted_event)
                for position, slot in zip(positions, slots, strict=True)
                if slot.id(run.id) not in known
            ]
            for agent, _ in chosen:
                moved[agent] += 1
        return orders, moved

    async def _cells_of(self, connection: AsyncConnection, run: PlannedRun) -> Cells:
        known = self._cells.get(run.id)
        if known is not None:
            return known
        selection = run.submitted.selection
        positions = await queries.runnable_positions(connection, run.submitted.benchmark.sync)
        if selection.positions is not None:
            chosen = set(parse_positions(selection.positions))
            positions = [position for position in positions if position in chosen]
        cells = Cells(
            positions=positions,
            agents=len(run.submitted.agents),
            attempts=run.submitted.execution.attempts_per_task,
        )
        self._cells[run.id] = cells
        return cells


def _finished(run: PlannedRun, cells: Cells) -> Finish | None:
    """The end of a run of which every slot has its result."""
    if run.scored + run.unscored != cells.count:
        return None
    return Finish(scored=run.scored, errored=run.unscored)


def _slot(row: RowMapping) -> Slot:
    return Slot(agent=row["agent"], task=row["task"], attempt=row["attempt"])


def _order(
    run: PlannedRun, slot: Slot, try_number: int, task: RowMapping, *, cause: UUID
) -> WorkOrder:
    submitted = run.submitted
    agent = submitted.agents[slot.agent]
    return WorkOrder(
        workspace=run.workspace,
        run=run.id,
        slot=slot,
        try_number=try_number,
        benchmark=submitted.benchmark.name,
        agent=agent.model_copy(update={"env": {**submitted.env, **agent.env}}),
        location=task["location"],
        task_digest=task["digest"],
        environment=submitted.environment,
        timeout_multiplier=submitted.execution.timeout_multiplier,
        judge_model=submitted.execution.judge_model,
        judge_api_key_secret=submitted.execution.judge_api_key_secret,
        verifier_secrets=submitted.verifier_secrets,
        run_secrets=submitted.run_secrets,
        correlation_id=run.correlation_id,
        causation_id=cause,
    )
