"""The decisions of registry-sync: when a synchronisation begins and how it ends. Pure."""

from uuid import UUID

from assay_contracts.benchmark_events import (
    AddedData,
    BenchmarkAdded,
    BenchmarkEvent,
    BenchmarkSynced,
    BenchmarkSyncFailed,
    BenchmarkSyncStarted,
    BenchmarkTasksSynced,
    SyncedData,
    SyncFailedData,
    SyncStartedData,
    TasksSyncedData,
)
from assay_contracts.envelope import Event, Stamp
from assay_contracts.identifiers import MANAGED_WORKSPACE
from assay_contracts.lifecycle import BenchmarkLifecycle
from assay_contracts.values import SyncStatus


class DecisionRefusedError(Exception):
    """The benchmark's state does not allow it; most often somebody else was first."""


def begin(
    state: BenchmarkLifecycle, cause: Event, benchmark: UUID, sync: UUID, stamp: Stamp
) -> BenchmarkSyncStarted:
    """Begin a synchronisation, or begin anew one whose reader is gone.

    Raises:
        DecisionRefusedError: nothing is to be synchronised.
    """
    if state.removed or state.status not in {SyncStatus.PENDING, SyncStatus.SYNCING}:
        raise DecisionRefusedError("nothing is to be synchronised")
    return BenchmarkSyncStarted.model_validate(
        _envelope(cause, benchmark, stamp) | {"data": SyncStartedData(sync=sync)}
    )


def proceed(
    state: BenchmarkLifecycle,
    cause: Event,
    benchmark: UUID,
    data: TasksSyncedData | SyncedData | SyncFailedData,
    stamp: Stamp,
) -> BenchmarkEvent:
    """Record a page, the end or the failure of the synchronisation that `data` names.

    Raises:
        DecisionRefusedError: the benchmark was removed, or another synchronisation took over.
    """
    if state.removed or state.status is not SyncStatus.SYNCING or state.sync != data.sync:
        raise DecisionRefusedError("the synchronisation was overtaken")
    envelope = _envelope(cause, benchmark, stamp) | {"data": data}
    match data:
        case TasksSyncedData():
            return BenchmarkTasksSynced.model_validate(envelope)
        case SyncedData():
            return BenchmarkSynced.model_validate(envelope)
        case SyncFailedData():
            return BenchmarkSyncFailed.model_validate(envelope)


def publish_managed(
    state: BenchmarkLifecycle, cause: Event | None, benchmark: UUID, entry: AddedData, stamp: Stamp
) -> BenchmarkAdded:
    """Bring an entry of the catalogue into the stream.

    Raises:
        DecisionRefusedError: it is there already.
    """
    if state.added is None or cause is None:
        return BenchmarkAdded.model_validate(
            stamp.beginning(MANAGED_WORKSPACE, stamp.id) | {"benchmark": benchmark, "data": entry}
        )
    raise DecisionRefusedError("the catalogue's entry is there already")


def _envelope(cause: Event, benchmark: UUID, stamp: Stamp) -> dict[str, object]:
    return stamp.following(cause) | {"benchmark": benchmark}
