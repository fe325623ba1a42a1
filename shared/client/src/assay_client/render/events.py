"""One line for an event or for a line of a run's log, so that a long list can be read and cut."""

import json
from datetime import datetime

from assay_client.render import values
from assay_contracts.audit_events import Acted
from assay_contracts.benchmark_events import (
    BenchmarkAdded,
    BenchmarkEvent,
    BenchmarkRemoved,
    BenchmarkSynced,
    BenchmarkSyncFailed,
    BenchmarkSyncRequested,
    BenchmarkTasksSynced,
)
from assay_contracts.envelope import Event, UnknownEventError
from assay_contracts.events import decode_event
from assay_contracts.http import LogLine, StoredEvent
from assay_contracts.identifiers import Slot
from assay_contracts.run_events import (
    AttemptEvent,
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
    RunStopped,
    RunStopRequested,
    RunSubmitted,
)


def event_line(stored: StoredEvent) -> str:
    """Sequence, time, type, and what happened."""
    try:
        event = decode_event(_stream(stored), json.dumps(stored.event).encode())
    except UnknownEventError:
        return f"{stored.sequence:>8}  {values.clean(stored.subject)}"
    happened = " ".join(values.clean(_happened(event)).split())
    return (
        f"{stored.sequence:>8}  {_clock(event.occurred_at)}  {event.type:<15}  {happened}".rstrip()
    )


def workspace_line(stored: StoredEvent) -> str:
    """Time, what it is about, type, and what happened."""
    stream, about = _stream(stored), values.clean(stored.subject)
    try:
        event = decode_event(stream, json.dumps(stored.event).encode())
    except UnknownEventError:
        return f"{'?':<19}  {about}"
    match event:
        case RunEvent():
            about = f"run {event.run}"
        case BenchmarkEvent():
            about = f"benchmark {event.benchmark}"
        case _:
            about = stream.lower()
    happened = " ".join(values.clean(_happened(event)).split())
    return f"{_clock(event.occurred_at)}  {about}  {event.type:<15}  {happened}".rstrip()


def _stream(stored: StoredEvent) -> str:
    return stored.subject.partition(".")[0].upper()


def log_line(line: LogLine) -> str:
    """Time, level, step and message."""
    message = values.clean(line.message)
    return f"{_clock(line.timestamp)}  {line.level:<7}  {values.clean(line.step)}: {message}"


def _clock(at: datetime) -> str:
    return at.astimezone().strftime("%Y-%m-%d %H:%M:%S")


def _happened(event: Event) -> str:
    match event:
        case RunSubmitted(data=submitted):
            what = f"{submitted.expected_results:,} results of {submitted.benchmark.name}"
            return f"{submitted.name}: {what} {submitted.benchmark.version}, by {event.actor}"
        case RunQueued(data=queued):
            return f"{queued.expected_results:,} results to come"
        case RunFinished(data=finished):
            return f"{finished.scored:,} scored, {finished.errored:,} errored"
        case (
            RunStopRequested(data=why)
            | RunStopped(data=why)
            | RunFailed(data=why)
            | RunDeleted(data=why)
        ):
            return f"{why.reason} ({event.actor})"
        case RunPaused(data=paused):
            end = f" until {_clock(paused.until)}" if paused.until else ""
            return f"{_part(paused.agent)}{end}: {paused.reason} ({event.actor})"
        case RunResumed(data=resumed):
            return f"{_part(resumed.agent)}: {resumed.reason} ({event.actor})"
        case RunReopened(data=reopened):
            return f"{values.plural(len(reopened.slots), 'slot')}: {reopened.reason}"
        case AttemptEvent():
            return _happened_to_attempt(event)
        case BenchmarkEvent():
            return _happened_to_benchmark(event)
        case Acted(data=acted):
            return f"{event.actor}: {acted.act} {acted.target}"
        case _:
            return ""


def _happened_to_attempt(event: AttemptEvent) -> str:
    match event:
        case AttemptStarted(data=started):
            place = f"on {started.runner} in {started.environment}"
            return f"{_slot(started.slot)} try {started.try_number} {place}"
        case AttemptRetried(data=retried):
            return f"{_slot(retried.slot)} try {retried.try_number}: {retried.reason}"
        case ResultIngested(data=result):
            after = values.seconds(result.duration_seconds)
            failure = f": {result.exception.message}" if result.exception else ""
            return f"{_slot(result.slot)} try {result.try_number} after {after}{failure}"
        case ResultGraded(data=graded):
            cause = f" ({graded.cause.value})" if graded.cause else ""
            reason = f": {graded.reason}" if graded.reason else ""
            outcome = f"{graded.outcome.value}{cause}{reason}"
            return f"{_slot(graded.slot)} try {graded.try_number} {outcome}"
        case _:
            return ""


def _happened_to_benchmark(event: BenchmarkEvent) -> str:
    match event:
        case BenchmarkAdded(data=added):
            return f"{added.name}, by {event.actor}"
        case BenchmarkTasksSynced(data=tasks):
            return f"{len(tasks.tasks):,} of {values.plural(tasks.task_count, 'task')}"
        case BenchmarkSynced(data=synced):
            return f"{synced.key}: {values.plural(synced.task_count, 'task')}, {synced.digest}"
        case BenchmarkSyncRequested(data=why) | BenchmarkSyncFailed(data=why):
            return why.reason
        case BenchmarkRemoved(data=removed):
            return f"{removed.reason} ({event.actor})"
        case _:
            return ""


def _part(agent: int | None) -> str:
    return "the run" if agent is None else f"agent {agent}"


def _slot(slot: Slot) -> str:
    return f"{slot.task} agent {slot.agent} attempt {slot.attempt}"
