"""The decision to delete a run: given its events, which command is allowed."""

from datetime import UTC, datetime

import pytest

from assay_contracts.envelope import Stamp
from assay_contracts.identifiers import new_id
from assay_contracts.lifecycle import RunLifecycle, evolve_run
from assay_contracts.run_config import Agent
from assay_contracts.run_events import (
    ReasonData,
    ResolvedExecution,
    RunDeleted,
    RunFailed,
    RunFinished,
    RunQueued,
    RunReopened,
    RunStarted,
    RunStopped,
    RunSubmitted,
    SubmittedData,
)
from assay_contracts.values import BenchmarkPin, RunStatus, Selection, SourceType
from gateway import domain

RUN, AT = new_id(), datetime(2026, 12, 1, tzinfo=UTC)
STAMP = Stamp(id=new_id(), at=AT, actor="ann")
SLOT = {"agent": 0, "task": "a", "attempt": 1}
SUBMITTED = SubmittedData(
    name="bright-otter",
    benchmark=BenchmarkPin(
        id=new_id(),
        owner="default",
        name="toy",
        key="toy@1",
        source_type=SourceType.REGISTRY,
        sync=new_id(),
        version="1",
        digest="sha256:ab",
    ),
    selection=Selection(task_set="full", task_count=1),
    agents=(Agent(harness="oracle"),),
    execution=ResolvedExecution(
        attempts_per_task=1,
        max_concurrent_attempts=1,
        timeout_multiplier=1.0,
        max_retries=0,
        pass_threshold=1.0,
    ),
    expected_results=1,
)


def event(kind, data=None):
    fields = {"workspace": "default", "run": RUN, "occurred_at": AT, "actor": "ann"}
    fields |= {"id": new_id(), "correlation_id": RUN}
    return kind.model_validate(fields if data is None else fields | {"data": data})


BEGUN = [
    event(RunSubmitted, SUBMITTED),
    event(RunQueued, {"expected_results": 1}),
    event(RunStarted),
]
FINISHED = [*BEGUN, event(RunFinished, {"scored": 0, "errored": 1})]
STOPPED = [*BEGUN, event(RunStopped, {"reason": "enough"})]
FAILED = [*BEGUN, event(RunFailed, {"reason": "the list is gone"})]
REOPENED = [*FINISHED, event(RunReopened, {"slots": [SLOT], "reason": "again"})]
DELETED = [*FINISHED, event(RunDeleted, {"reason": "a mistake"})]


def after(events):
    state = RunLifecycle()
    for one in events:
        state = evolve_run(state, one)
    return state


def delete(events):
    return domain.delete(after(events), RUN, "a mistake", STAMP, "default", new_id())


@pytest.mark.parametrize("events", [FINISHED, STOPPED, FAILED])
def test_a_run_that_has_ended_is_deleted_and_keeps_its_status(events):
    deleted = delete(events)
    assert (deleted.run, deleted.actor, deleted.data) == (
        RUN,
        "ann",
        ReasonData(reason="a mistake"),
    )
    assert deleted.subject == f"runs.default.{RUN}.lifecycle.deleted"
    state = after([*events, deleted])
    assert (state.deleted, state.status) == (True, after(events).status)


@pytest.mark.parametrize(
    ("events", "status"),
    [
        (BEGUN[:1], RunStatus.PENDING),
        (BEGUN[:2], RunStatus.QUEUED),
        (BEGUN, RunStatus.RUNNING),
        (REOPENED, RunStatus.QUEUED),
    ],
)
def test_a_run_that_has_not_ended_is_stopped_first(events, status):
    with pytest.raises(domain.DecisionRefusedError) as refused:
        delete(events)
    assert f"the run is {status.value}" in str(refused.value)
    assert "assay run stop bright-otter" in str(refused.value)


def test_nothing_is_decided_on_a_run_that_was_deleted():
    state, more = after(DELETED), ("reason", STAMP, "default", new_id())
    for decide in (
        lambda: delete(DELETED),
        lambda: domain.request_stop(state, RUN, *more),
        lambda: domain.pause(state, RUN, None, *more),
        lambda: domain.resume(state, RUN, None, *more),
        lambda: domain.reopen(state, RUN, [SLOT], *more),
    ):
        with pytest.raises(domain.DecisionRefusedError, match="was deleted"):
            decide()
