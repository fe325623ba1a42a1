"""A run's events as lines that a person reads: one line an event, from submission to the end."""

from collections.abc import Mapping
from typing import Literal
from uuid import UUID

from assay_contracts.envelope import Event, UnknownEventError
from assay_contracts.events import decode_event
from assay_contracts.http import LogLine, LogPage
from assay_contracts.labels import agent_label
from assay_contracts.run_events import (
    AttemptEvent,
    AttemptRetried,
    AttemptStarted,
    ResultGraded,
    ResultIngested,
    ResultIngestedData,
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
    SubmittedData,
    TryData,
)
from assay_contracts.values import Outcome
from assay_kernel.cursor import StoredMessage
from gateway.run_events import Messages

Level = Literal["info", "warning", "error"]
Seconds = Mapping[tuple[UUID, int, int], float | None]
"""How long tries took: by slot, try and delivery."""


def graded_slots(told: Messages) -> list[UUID]:
    """The slots that verdicts among the messages are about."""
    events = [_decoded(message) for message in told.items]
    return [one.data.slot.id(told.run) for one in events if isinstance(one, ResultGraded)]


def log_page(told: Messages, submitted: SubmittedData, seconds: Seconds) -> LogPage:
    """Lines in stream order; `seconds` says how long the judged tries took, as far as known."""
    known = dict(seconds)
    lines: list[LogLine] = []
    for message in told.items:
        event = _decoded(message)
        if isinstance(event, ResultIngested):
            known[_key(event.data, told.run)] = event.data.duration_seconds
        lines.append(_line(message, event, submitted, known))
    return LogPage(items=lines, next_after=told.next_after)


def _decoded(message: StoredMessage) -> Event | None:
    try:
        return decode_event(RunEvent.stream, message.payload)
    except UnknownEventError:
        return None


def _key(data: TryData, run: UUID) -> tuple[UUID, int, int]:
    return data.slot.id(run), data.try_number, data.delivery


def _line(
    message: StoredMessage, event: Event | None, submitted: SubmittedData, seconds: Seconds
) -> LogLine:
    if event is None:
        return LogLine(
            sequence=message.sequence,
            timestamp=message.stored_at,
            level="warning",
            step="unknown",
            message="an event that this version does not know",
        )
    if isinstance(event, AttemptEvent):
        level, said = _attempt(event, submitted, seconds)
    else:
        level, said = _lifecycle(event, submitted)
    return LogLine(
        sequence=message.sequence,
        timestamp=event.occurred_at,
        level=level,
        step=event.type,
        message=said,
        details=event.model_dump(mode="json")["data"] or None,
    )


def _lifecycle(event: Event, submitted: SubmittedData) -> tuple[Level, str]:
    match event:
        case RunSubmitted(data=data):
            pin = data.benchmark
            return "info", (
                f"{event.actor} asks for {_count(len(data.agents), 'agent')} on "
                f"{_count(data.selection.task_count, 'task')} of {pin.name}, version {pin.version} "
                f"({pin.digest}), {_count(data.expected_results, 'result')} expected"
            )
        case RunQueued():
            return "info", "the pinned task list is there; the run waits for capacity"
        case RunStarted():
            return "info", "attempts are handed out from now on"
        case RunStopRequested(data=data):
            return "warning", f"{event.actor} asked to stop: {data.reason}"
        case RunStopped(data=data):
            return "warning", f"the last sandbox is gone: {data.reason}"
        case RunFinished(data=data):
            return (
                "info",
                f"every slot has its result: {data.scored} with a score, {data.errored} without",
            )
        case RunFailed(data=data):
            return "error", data.reason
        case RunReopened(data=data):
            return "info", f"{_count(len(data.slots), 'result')} to run again: {data.reason}"
        case RunDeleted(data=data):
            return "warning", f"{event.actor} deleted the run: {data.reason}"
        case RunPaused(data=data):
            end = f"until {data.until:%Y-%m-%d %H:%M:%S} UTC" if data.until else "until resumed"
            return "warning", f"{_part(data.agent, submitted)} is paused {end}: {data.reason}"
        case RunResumed(data=data):
            return "info", f"{_part(data.agent, submitted)} goes on: {data.reason}"
        case _:
            return "info", event.type


def _attempt(event: AttemptEvent, submitted: SubmittedData, seconds: Seconds) -> tuple[Level, str]:
    match event:
        case AttemptStarted(data=data):
            again = f" (handed out {data.delivery} times)" if data.delivery > 1 else ""
            said = f"{_name(data, submitted)} began in {data.environment} on {data.runner}{again}"
            return "info", said
        case AttemptRetried(data=data):
            wait = (data.not_before - event.occurred_at).total_seconds()
            return "warning", f"{_name(data, submitted)} follows in {wait:.1f} s: {data.reason}"
        case ResultIngested(data=data):
            return _ending(data, submitted)
        case ResultGraded(data=data):
            return _verdict(event, submitted, seconds)
        case _:
            return "info", event.type


def _ending(data: ResultIngestedData, submitted: SubmittedData) -> tuple[Level, str]:
    """How a try ended, and what is left of it: a result is told when its sandbox is gone."""
    said = f"{_name(data, submitted)} {'was cancelled' if data.cancelled else 'ended'}"
    if data.duration_seconds is not None:
        said += f" after {data.duration_seconds:.1f} s"
    took = [
        f"{part.replace('_', ' ')} {value:.1f} s"
        for part, value in data.durations
        if value is not None
    ]
    if took:
        said += f" ({', '.join(took)})"
    if data.artifacts is not None:
        said += f", {_count(data.artifacts.files, 'file')} kept"
    if submitted.imported is None:
        said += ", sandbox removed"
    if data.exception is not None:
        return "warning", f"{said}: {data.exception.type} in {data.exception.phase.value}"
    return "info", said


def _verdict(event: ResultGraded, submitted: SubmittedData, seconds: Seconds) -> tuple[Level, str]:
    data = event.data
    said = f"{_name(data, submitted)} {data.outcome.value}"
    if data.reward is not None:
        said += f" (reward {data.reward:g})"
    took = seconds.get(_key(data, event.run))
    if took is not None:
        said += f" in {took:.1f} s"
    if data.outcome is Outcome.PASSED:
        return "info", said
    why = [str(one) for one in (data.cause, data.reason) if one]
    level: Level = "error" if data.outcome is Outcome.ERRORED else "info"
    return level, ": ".join([said, *why])


def _name(data: TryData, submitted: SubmittedData) -> str:
    who = _agent(data.slot.agent, submitted)
    again = f", try {data.try_number}" if data.try_number > 1 else ""
    return f"attempt {data.slot.attempt} of {data.slot.task} by {who}{again}"


def _part(agent: int | None, submitted: SubmittedData) -> str:
    return "the run" if agent is None else _agent(agent, submitted)


def _agent(index: int, submitted: SubmittedData) -> str:
    if index >= len(submitted.agents):
        return f"agent {index}"
    agent = submitted.agents[index]
    return agent_label(agent.harness, agent.model_label)


def _count(number: int, thing: str) -> str:
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"
