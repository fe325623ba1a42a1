"""The gateway's decisions, free of I/O: what is added, read again, removed, submitted, stopped,
paused, resumed, reopened, deleted."""

from collections.abc import Iterator, Sequence
from urllib.parse import urlsplit
from uuid import UUID

from assay_contracts.benchmark_events import (
    AddedData,
    BenchmarkAdded,
    BenchmarkRemoved,
    BenchmarkSyncRequested,
    RemovedData,
    SyncRequestedData,
)
from assay_contracts.envelope import Stamp
from assay_contracts.identifiers import MANAGED_WORKSPACE, Slot
from assay_contracts.lifecycle import BenchmarkLifecycle, RunLifecycle
from assay_contracts.run_config import ConfigIssue
from assay_contracts.run_events import (
    PausedData,
    ReasonData,
    ReopenedData,
    ResumedData,
    RunDeleted,
    RunPaused,
    RunReopened,
    RunResumed,
    RunStopRequested,
    RunSubmitted,
    SubmittedData,
)
from assay_contracts.values import (
    BenchmarkSource,
    CatalogueSource,
    FolderSource,
    GitSource,
    RegistrySource,
    RunStatus,
    SourceType,
    SyncStatus,
)

CUSTOM, FULL = "custom", "full"
"""The task sets of a selection that is none of the published ones."""

SCORES_ARE_FINAL = "a score is final, and only a new run can give another"

NO_CREDENTIALS = "must not carry a user or password: it is kept in events that all can read"


class DecisionRefusedError(Exception):
    """The state of things does not allow it; the message says why."""


def default_name(source: BenchmarkSource) -> str:
    """The name that a benchmark gets from its source."""
    match source:
        case RegistrySource(dataset=dataset):
            return dataset
        case GitSource(url=url):
            return url.rstrip("/").rsplit("/", 1)[-1].removesuffix(".git")
        case FolderSource(path=path):
            return path.rstrip("/").rsplit("/", 1)[-1] or path
        case CatalogueSource(key=key):
            return key


_ADDRESSES = ("/sync", "/leaderboard", "/compare")
"""What follows a benchmark's reference in a path, which may have slashes itself."""


def adding_issues(name: str, source: BenchmarkSource) -> Iterator[ConfigIssue]:
    """What keeps a benchmark from being added under a name."""
    if not name.strip():
        yield ConfigIssue(key="name", message="must not be blank")
    if name.endswith(_ADDRESSES):
        said = " or ".join((", ".join(_ADDRESSES[:-1]), _ADDRESSES[-1]))
        message = f"must not end in {said}, which are addresses; choose another"
        yield ConfigIssue(key="name", message=message)
    match source:
        case CatalogueSource():
            message = "the catalogue's benchmarks are in every workspace already"
            yield ConfigIssue(key="source.kind", message=message)
        case GitSource(url=address) if carries_credentials(address):
            yield ConfigIssue(key="source.url", message=NO_CREDENTIALS)
        case RegistrySource(registry=str(address)) if carries_credentials(address):
            yield ConfigIssue(key="source.registry", message=NO_CREDENTIALS)
        case _:
            pass


def carries_credentials(address: str) -> bool:
    """Whether a web address has a user or a password in front of its host."""
    try:
        parts = urlsplit(address)
    except ValueError:
        return False
    secret = parts.password is not None
    return secret or (parts.scheme in {"http", "https"} and "@" in parts.netloc)


def add(
    benchmark: UUID, name: str, source: BenchmarkSource, stamp: Stamp, workspace: str, request: UUID
) -> BenchmarkAdded:
    """Add a benchmark to a workspace."""
    data = AddedData(name=name, source=source, source_type=SourceType.REGISTRY)
    return BenchmarkAdded.model_validate(
        stamp.beginning(workspace, request) | {"benchmark": benchmark, "data": data}
    )


def request_sync(
    state: BenchmarkLifecycle, benchmark: UUID, owner: str, stamp: Stamp, request: UUID
) -> BenchmarkSyncRequested:
    """Read a benchmark's task list again.

    Raises:
        DecisionRefusedError: it is being read, or was removed.
    """
    _require_present(state)
    if state.status in {SyncStatus.PENDING, SyncStatus.SYNCING}:
        raise DecisionRefusedError("its task list is being read already")
    data = SyncRequestedData(reason="asked for by a user")
    return BenchmarkSyncRequested.model_validate(
        stamp.beginning(owner, request) | {"benchmark": benchmark, "data": data}
    )


def remove(
    state: BenchmarkLifecycle,
    benchmark: UUID,
    owner: str,
    open_runs: int,
    stamp: Stamp,
    request: UUID,
) -> BenchmarkRemoved:
    """Remove a benchmark from its workspace.

    Raises:
        DecisionRefusedError: it is managed, has runs under way, or was removed.
    """
    _require_present(state)
    if owner == MANAGED_WORKSPACE:
        raise DecisionRefusedError("it belongs to the managed catalogue and cannot be removed")
    if open_runs:
        raise DecisionRefusedError(f"{open_runs} of its runs have not ended; stop them first")
    return BenchmarkRemoved.model_validate(
        stamp.beginning(owner, request)
        | {"benchmark": benchmark, "data": RemovedData(reason="removed by a user")}
    )


def _require_present(state: BenchmarkLifecycle) -> None:
    if state.added is None or state.removed:
        raise DecisionRefusedError("it was removed")


def submit(
    run: UUID, data: SubmittedData, stamp: Stamp, workspace: str, request: UUID
) -> RunSubmitted:
    """Submit a run."""
    return RunSubmitted.model_validate(
        stamp.beginning(workspace, request) | {"run": run, "data": data}
    )


def request_stop(
    state: RunLifecycle, run: UUID, reason: str, stamp: Stamp, workspace: str, request: UUID
) -> RunStopRequested:
    """Ask a run to stop.

    Raises:
        DecisionRefusedError: it is not there, has ended, or was asked before.
    """
    require_there(state)
    if state.submitted is None:
        raise DecisionRefusedError("the run was never submitted")
    if state.status.is_terminal:
        raise DecisionRefusedError(f"the run has ended: it is {state.status.value}")
    if state.stop_requested is not None:
        raise DecisionRefusedError("the run was asked to stop already and is stopping")
    return RunStopRequested.model_validate(
        stamp.beginning(workspace, request) | {"run": run, "data": ReasonData(reason=reason)}
    )


def pause(
    state: RunLifecycle,
    run: UUID,
    agent: int | None,
    reason: str,
    stamp: Stamp,
    workspace: str,
    request: UUID,
) -> RunPaused:
    """Let nothing new of a run start, or of one agent.

    Raises:
        DecisionRefusedError: it has ended or is stopping, or is paused already.
    """
    _require_open(state)
    if agent in state.paused:
        raise DecisionRefusedError(f"{_paused_name(agent)} is paused: {state.paused[agent].reason}")
    return RunPaused.model_validate(
        stamp.beginning(workspace, request)
        | {"run": run, "data": PausedData(agent=agent, reason=reason)}
    )


def resume(
    state: RunLifecycle,
    run: UUID,
    agent: int | None,
    reason: str,
    stamp: Stamp,
    workspace: str,
    request: UUID,
) -> RunResumed:
    """Let an agent go on, or all that is paused of a run.

    Raises:
        DecisionRefusedError: the run has ended or is stopping, or nothing of it is paused.
    """
    _require_open(state)
    if agent is not None and agent not in state.paused and None in state.paused:
        raise DecisionRefusedError("the whole run is paused; resume it without naming an agent")
    if not state.paused or (agent is not None and agent not in state.paused):
        raise DecisionRefusedError(f"{_paused_name(agent)} is not paused")
    return RunResumed.model_validate(
        stamp.beginning(workspace, request)
        | {"run": run, "data": ResumedData(agent=agent, reason=reason)}
    )


def _paused_name(agent: int | None) -> str:
    return "the run" if agent is None else f"agent {agent}"


def require_there(state: RunLifecycle) -> None:
    """Refuse whatever is asked of a run that was deleted meanwhile.

    Raises:
        DecisionRefusedError: it was.
    """
    if state.deleted:
        raise DecisionRefusedError("the run was deleted; its name stays taken, submit a new run")


def _require_open(state: RunLifecycle) -> None:
    require_there(state)
    if state.submitted is None:
        raise DecisionRefusedError("the run was never submitted")
    if state.submitted.imported is not None:
        raise DecisionRefusedError("the run's results were made elsewhere, and nothing of it runs")
    if state.status.is_terminal:
        raise DecisionRefusedError(f"the run has ended: it is {state.status.value}")
    if state.stop_requested is not None:
        raise DecisionRefusedError("the run was asked to stop and is stopping")


def require_reopenable(state: RunLifecycle) -> None:
    """Whether slots of a run can run again at all.

    Raises:
        DecisionRefusedError: they cannot, or not yet.
    """
    require_there(state)
    if state.submitted is None:
        raise DecisionRefusedError("the run was never submitted")
    if state.submitted.imported is not None:
        raise DecisionRefusedError(
            "the run's results were made elsewhere, and nothing of it can run here"
        )
    match state.status:
        case RunStatus.FINISHED:
            return
        case RunStatus.STOPPED:
            raise DecisionRefusedError(
                "the run was stopped, and what it left out stays out; submit a new run"
            )
        case RunStatus.FAILED:
            raise DecisionRefusedError(f"the run failed: {state.reason}; submit a new run")
        case _:
            raise DecisionRefusedError(
                f"the run is {state.status.value}; what errored can run again once it has ended"
            )


def reopen(
    state: RunLifecycle,
    run: UUID,
    slots: Sequence[Slot],
    reason: str,
    stamp: Stamp,
    workspace: str,
    request: UUID,
) -> RunReopened:
    """Let errored slots of a finished run run again.

    Raises:
        DecisionRefusedError: its state does not allow it, or no slot is errored.
    """
    require_reopenable(state)
    if not slots:
        raise DecisionRefusedError(f"no result of the run is errored; {SCORES_ARE_FINAL}")
    return RunReopened.model_validate(
        stamp.beginning(workspace, request)
        | {"run": run, "data": ReopenedData(slots=tuple(slots), reason=reason)}
    )


def delete(
    state: RunLifecycle, run: UUID, reason: str, stamp: Stamp, workspace: str, request: UUID
) -> RunDeleted:
    """Delete a run that has ended.

    Raises:
        DecisionRefusedError: it has not ended, or was deleted before.
    """
    require_there(state)
    if state.submitted is None:
        raise DecisionRefusedError("the run was never submitted")
    if not state.status.is_terminal:
        name = state.submitted.name
        raise DecisionRefusedError(
            f"the run is {state.status.value}, and only one that has ended can be deleted; "
            f"stop it first: assay run stop {name}"
        )
    return RunDeleted.model_validate(
        stamp.beginning(workspace, request) | {"run": run, "data": ReasonData(reason=reason)}
    )
