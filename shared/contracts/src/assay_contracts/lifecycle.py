"""What the events of a run and of a benchmark add up to: the states that decisions are taken on.

The gateway and the services decide on the same aggregates, so the folds stand here, pure and small;
the decisions themselves stand in each service's `domain.py`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from uuid import UUID

from assay_contracts.benchmark_events import (
    AddedData,
    BenchmarkAdded,
    BenchmarkRemoved,
    BenchmarkSynced,
    BenchmarkSyncFailed,
    BenchmarkSyncRequested,
    BenchmarkSyncStarted,
    SyncedData,
)
from assay_contracts.envelope import Event
from assay_contracts.run_events import (
    PausedData,
    RunDeleted,
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
    SubmittedData,
)
from assay_contracts.values import Outcome, RunStatus, SyncStatus


@dataclass(frozen=True, slots=True)
class RunLifecycle:
    """A run as its decisions made it; `submitted` is None before there is one.

    `paused` holds what is paused by the agent's place, and under None a pause of the whole run. A
    run that was `deleted` keeps the status that it had ended with.
    """

    status: RunStatus = RunStatus.PENDING
    submitted: SubmittedData | None = None
    stop_requested: str | None = None
    reason: str | None = None
    paused: Mapping[int | None, PausedData] = field(default_factory=dict)
    deleted: bool = False


def evolve_run(state: RunLifecycle, event: Event) -> RunLifecycle:
    """The run after one more lifecycle event."""
    match event:
        case RunSubmitted(data=data):
            return replace(state, status=RunStatus.PENDING, submitted=data)
        case RunQueued():
            return replace(state, status=RunStatus.QUEUED)
        case RunStarted():
            return replace(state, status=RunStatus.RUNNING)
        case RunStopRequested(data=data):
            return replace(state, stop_requested=data.reason)
        case RunStopped(data=data):
            return replace(state, status=RunStatus.STOPPED, reason=data.reason)
        case RunFinished():
            return replace(state, status=RunStatus.FINISHED)
        case RunFailed(data=data):
            return replace(state, status=RunStatus.FAILED, reason=data.reason)
        case RunReopened():
            return replace(
                state, status=RunStatus.QUEUED, stop_requested=None, reason=None, paused={}
            )
        case RunDeleted():
            return replace(state, deleted=True)
        case RunPaused(data=data):
            return replace(state, paused={**state.paused, data.agent: data})
        case RunResumed(data=data):
            return replace(state, paused=still_paused(state.paused, data.agent))
        case _:
            return state


def still_paused(
    paused: Mapping[int | None, PausedData], resumed: int | None
) -> dict[int | None, PausedData]:
    """What stays paused when an agent goes on; nothing where the whole run does (None)."""
    if resumed is None:
        return {}
    return {agent: pause for agent, pause in paused.items() if agent != resumed}


@dataclass(frozen=True, slots=True)
class BenchmarkLifecycle:
    """A benchmark as its events made it; `added` is None before there is one.

    `pinned` is the newest complete synchronisation, which serves while a newer one is under way.
    """

    added: AddedData | None = None
    status: SyncStatus = SyncStatus.PENDING
    sync: UUID | None = None
    pinned: SyncedData | None = None
    removed: bool = False


def evolve_benchmark(state: BenchmarkLifecycle, event: Event) -> BenchmarkLifecycle:
    """The benchmark after one more event."""
    match event:
        case BenchmarkAdded(data=data):
            return replace(state, added=data, status=SyncStatus.PENDING, removed=False)
        case BenchmarkSyncRequested():
            return replace(state, status=SyncStatus.PENDING)
        case BenchmarkSyncStarted(data=data):
            return replace(state, status=SyncStatus.SYNCING, sync=data.sync)
        case BenchmarkSynced(data=data):
            return replace(state, status=SyncStatus.READY, pinned=data)
        case BenchmarkSyncFailed():
            return replace(state, status=SyncStatus.FAILED)
        case BenchmarkRemoved():
            return replace(state, removed=True)
        case _:
            return state


def counts_over(standing: Outcome | None, arriving: Outcome) -> bool:
    """Whether a slot's arriving verdict takes the place of the one that stands.

    The first scored verdict in stream order stands for good. One without a score stands only until
    a scored one, or a later one without, arrives.
    """
    return standing is None or not standing.is_scored
