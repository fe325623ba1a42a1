"""The planner on a real database: what it decides while verdicts are folded beside it."""

from datetime import UTC, datetime
from uuid import UUID

import pytest
from sqlalchemy import insert

from assay_contracts.identifiers import Slot, new_id
from assay_contracts.run_events import (
    AttemptStarted,
    ResultGraded,
    RunQueued,
    RunStarted,
    RunSubmitted,
)
from assay_kernel.database import open_database
from assay_kernel.event_store import EventStore, Recorded
from assay_kernel.migrations import migrate
from assay_kernel.outbox import Outbox
from run_scheduler import queries
from run_scheduler.domain import Finish
from run_scheduler.lifecycle import Lifecycles
from run_scheduler.planner import Planner
from run_scheduler.runs_projection import RunsProjection
from run_scheduler.settings import SchedulerSettings
from run_scheduler.tables import kernel, metadata, version_tasks, versions

AT = datetime(2026, 12, 1, tzinfo=UTC)
RUN, SYNC = UUID(int=7), UUID(int=9)
SLOT = Slot(agent=0, task="a", attempt=1)


def event(kind, sequence, data=None):
    fields = {
        "id": new_id(),
        "workspace": "default",
        "run": RUN,
        "occurred_at": AT,
        "actor": "tester",
        "correlation_id": UUID(int=1),
        **({} if data is None else {"data": data}),
    }
    return Recorded(sequence=sequence, event=kind.model_validate(fields), stored_at=AT)


def submitted(**execution):
    settings = {
        "attempts_per_task": 1,
        "max_concurrent_attempts": 4,
        "timeout_multiplier": 1.0,
        "max_retries": 2,
        "pass_threshold": 1.0,
    }
    data = {
        "name": "run",
        "benchmark": {
            "id": UUID(int=8),
            "owner": "default",
            "name": "toy",
            "key": "toy@1",
            "source_type": "harbor_registry",
            "sync": SYNC,
            "version": "1",
            "digest": "sha256:1",
        },
        "selection": {"task_set": "full", "task_count": 1},
        "agents": [{"harness": "oracle"}],
        "execution": settings | execution,
        "expected_results": 1,
    }
    return event(RunSubmitted, 1, data)


def started_try(sequence, number):
    data = {"slot": SLOT, "try_number": number, "runner": "r", "environment": "local"}
    return event(AttemptStarted, sequence, data)


def lost_try(sequence, number):
    data = {
        "slot": SLOT,
        "try_number": number,
        "outcome": "errored",
        "pass_threshold": 1.0,
        "cause": "network",
        "reason": "lost",
        "retryable": True,
    }
    return event(ResultGraded, sequence, data)


@pytest.fixture
async def engine(settings):
    migrate(settings.database_url, "run_scheduler", metadata)
    engine = open_database(settings.database_url, "run-scheduler")
    async with engine.begin() as connection:
        await connection.execute(
            insert(versions).values(sync=SYNC, benchmark=UUID(int=8), complete=True)
        )
        location = {"sha256": "0" * 64, "size": 1}
        await connection.execute(
            insert(version_tasks).values(sync=SYNC, position=0, name="a", location=location)
        )
    yield engine
    await engine.dispose()


@pytest.fixture
def planner(engine, store: EventStore):
    return Planner(
        engine, Outbox(kernel.outbox, engine, store), Lifecycles(store), SchedulerSettings()
    )


@pytest.fixture
def fold(engine):
    projection = RunsProjection()

    async def write(*events):
        async with engine.begin() as connection:
            await projection.apply(connection, events)
            await projection.react(connection, events)

    return write


async def test_a_verdict_that_is_folded_in_the_middle_of_a_plan_does_not_end_the_run(
    planner, fold, monkeypatch
):
    await fold(submitted(), event(RunQueued, 2, {"expected_results": 1}), event(RunStarted, 3))
    await planner.plan(RUN)
    await fold(started_try(4, 1), lost_try(5, 1), started_try(6, 2))
    async with planner._engine.begin() as connection:
        await queries.note_dispatches(connection, RUN, [(SLOT.id(RUN), 2)])
    asked = queries.to_retry

    async def asked_and_overtaken(connection, run, max_retries):
        answer = await asked(connection, run, max_retries)
        await fold(lost_try(7, 2))
        return answer

    monkeypatch.setattr(queries, "to_retry", asked_and_overtaken)
    _, command = await planner.plan(RUN)
    assert command is None
    monkeypatch.setattr(queries, "to_retry", asked)
    _, command = await planner.plan(RUN)
    assert command is None


async def test_a_run_whose_last_try_is_used_up_is_finished(planner, fold):
    await fold(
        submitted(max_retries=0), event(RunQueued, 2, {"expected_results": 1}), event(RunStarted, 3)
    )
    await planner.plan(RUN)
    await fold(started_try(4, 1), lost_try(5, 1))
    assert await planner.plan(RUN) == ("default", Finish(scored=0, errored=1))
