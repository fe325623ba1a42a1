"""Every event ever published, and how stored bytes become one.

An event is known by its stream, type and version. A new shape of an old event is a new version;
its upcaster turns the stored form into the current one before it is decoded, so that folds only
ever see current events.
"""

import json
from collections.abc import Callable, Mapping
from typing import Annotated, Any

from pydantic import Field, TypeAdapter, ValidationError

from assay_contracts.audit_events import Acted, AuditEvent
from assay_contracts.benchmark_events import (
    BenchmarkAdded,
    BenchmarkEvent,
    BenchmarkRemoved,
    BenchmarkSynced,
    BenchmarkSyncFailed,
    BenchmarkSyncRequested,
    BenchmarkSyncStarted,
    BenchmarkTasksSynced,
)
from assay_contracts.envelope import Event, UnknownEventError
from assay_contracts.run_events import (
    AttemptRetried,
    AttemptStarted,
    ResultGraded,
    ResultIngested,
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
)

AnyRunEvent = Annotated[
    RunSubmitted
    | RunQueued
    | RunStarted
    | RunStopRequested
    | RunStopped
    | RunFinished
    | RunFailed
    | RunReopened
    | RunPaused
    | RunResumed
    | RunDeleted
    | AttemptStarted
    | AttemptRetried
    | ResultIngested
    | ResultGraded,
    Field(discriminator="type"),
]
AnyBenchmarkEvent = Annotated[
    BenchmarkAdded
    | BenchmarkSyncRequested
    | BenchmarkSyncStarted
    | BenchmarkTasksSynced
    | BenchmarkSynced
    | BenchmarkSyncFailed
    | BenchmarkRemoved,
    Field(discriminator="type"),
]

_ADAPTERS: Mapping[str, TypeAdapter[Any]] = {
    RunEvent.stream: TypeAdapter(AnyRunEvent),
    BenchmarkEvent.stream: TypeAdapter(AnyBenchmarkEvent),
    AuditEvent.stream: TypeAdapter(Acted),
}

Upcaster = Callable[[dict[str, Any]], dict[str, Any]]


def _with_new_fields(stored: dict[str, Any]) -> dict[str, Any]:
    """For a version that only added fields with a default."""
    return stored | {"version": stored["version"] + 1}


UPCASTERS: Mapping[tuple[str, str, int], Upcaster] = {
    (RunEvent.stream, "submitted", 1): _with_new_fields,
    (RunEvent.stream, "submitted", 2): _with_new_fields,
    (RunEvent.stream, "result-ingested", 1): _with_new_fields,
    (RunEvent.stream, "result-graded", 1): _with_new_fields,
    (BenchmarkEvent.stream, "synced", 1): _with_new_fields,
}
"""(stream, type, old version) to the function that returns the next version's stored form."""


def decode_event(stream: str, payload: bytes) -> Event:
    """The event that `payload` holds, brought to its current version.

    Raises:
        UnknownEventError: the stream, type or version is unknown, or the data does not fit.
    """
    adapter = _ADAPTERS.get(stream)
    if adapter is None:
        raise UnknownEventError(f"no events are known for the stream {stream}")
    try:
        event = _decode(stream, adapter, payload)
    except (ValidationError, ValueError) as error:
        raise UnknownEventError(f"no event of {stream} in these bytes: {error}") from error
    if not isinstance(event, Event):  # pragma: no cover  the adapters hold events alone
        raise UnknownEventError(f"{type(event).__name__} is no event")
    return event


def _decode(stream: str, adapter: TypeAdapter[Any], payload: bytes) -> Any:
    try:
        return adapter.validate_json(payload)  # most events are current: read in one step
    except ValidationError:
        stored = json.loads(payload)
        current = _upcast(stream, stored) if isinstance(stored, dict) else stored
        if current is stored:
            raise
        return adapter.validate_json(json.dumps(current))


def _upcast(stream: str, stored: dict[str, Any]) -> dict[str, Any]:
    while True:
        step = UPCASTERS.get((stream, str(stored.get("type")), stored.get("version", 0)))
        if step is None:
            return stored
        stored = step(stored)


def event_schema() -> dict[str, Any]:
    """JSON Schema of every event by stream, for the compatibility tests and for subscribers."""
    return {stream: adapter.json_schema() for stream, adapter in _ADAPTERS.items()}
