"""A run's events as they lie in the stream: in pages, live, and as lines that a person reads."""

import asyncio
from collections.abc import AsyncIterator
from datetime import datetime
from typing import Any, Literal
from uuid import UUID

import orjson
from sse_starlette import EventSourceResponse, ServerSentEvent

from assay_contracts.envelope import Event
from assay_contracts.events import decode_event
from assay_contracts.http import EventPage, LogLine, LogPage, StoredEvent
from assay_contracts.run_config import Agent
from assay_contracts.run_events import (
    AttemptEvent,
    AttemptRetried,
    AttemptStarted,
    ResultGraded,
    ResultIngested,
    RunEvent,
    RunFailed,
    RunFinished,
    RunQueued,
    RunReopened,
    RunStarted,
    RunStopped,
    RunStopRequested,
    RunSubmitted,
)
from assay_contracts.values import Outcome
from assay_kernel.cursor import Cursor, StoredMessage, read_stored
from assay_kernel.event_store import EventStore

_LAST_TYPES = {"finished", "failed", "stopped"}
_HEARTBEAT_SECONDS = 10
_BATCH = 200

Level = Literal["info", "warning", "error"]


def subjects_of(workspace: str, run: UUID) -> list[str]:
    """Everything that is told about a run."""
    return [f"{RunEvent.stream.lower()}.{workspace}.{run}.>"]


def as_stored(message: StoredMessage) -> StoredEvent:
    """An event exactly as it lies in the stream."""
    return StoredEvent(
        sequence=message.sequence,
        subject=message.subject,
        event=orjson.loads(message.payload),
    )


async def event_page(
    store: EventStore, workspace: str, run: UUID, *, after: int, limit: int
) -> EventPage:
    """Events after a sequence, in stream order."""
    messages, more = await _messages(store, workspace, run, after=after, limit=limit)
    return EventPage(
        items=[as_stored(one) for one in messages],
        next_after=messages[-1].sequence if more else None,
    )


async def log_page(
    store: EventStore, workspace: str, run: UUID, agents: list[Agent], *, after: int, limit: int
) -> LogPage:
    """Lines after a sequence, one an event."""
    messages, more = await _messages(store, workspace, run, after=after, limit=limit)
    lines = [
        _line(one.sequence, decode_event(RunEvent.stream, one.payload), agents) for one in messages
    ]
    return LogPage(items=lines, next_after=messages[-1].sequence if more else None)


async def _messages(
    store: EventStore, workspace: str, run: UUID, *, after: int, limit: int
) -> tuple[list[StoredMessage], bool]:
    found: list[StoredMessage] = []
    async for message in read_stored(
        store.client, RunEvent.stream, subjects_of(workspace, run), after=after
    ):
        if len(found) == limit:
            return found, True
        found.append(message)
    return found, False


def live(
    store: EventStore, workspace: str, run: UUID, *, after: int, closing: asyncio.Event
) -> EventSourceResponse:
    """Server-Sent Events after a sequence, until the run has ended and all is told.

    The id of each is its sequence, from which a client that was cut off goes on.
    """

    async def told() -> AsyncIterator[ServerSentEvent]:
        subjects = subjects_of(workspace, run)
        async with Cursor(store.client, RunEvent.stream, subjects, after=after) as cursor:
            left = cursor.pending_at_open
            ended = False
            while not closing.is_set() and not (ended and left <= 0):
                for message in await cursor.batch(_BATCH, wait_seconds=1.0):
                    left -= 1
                    stored = as_stored(message)
                    ended = stored.event["type"] in _LAST_TYPES
                    yield ServerSentEvent(
                        stored.model_dump_json(),
                        event=str(stored.event["type"]),
                        id=str(stored.sequence),
                    )

    return EventSourceResponse(told(), ping=_HEARTBEAT_SECONDS)


def _line(sequence: int, event: Event, agents: list[Agent]) -> LogLine:
    level, message = _lifecycle(event)
    details: dict[str, Any] | None = None
    if isinstance(event, AttemptEvent):
        level, message = _attempt(event, agents)
        details = event.model_dump(mode="json")["data"]
    at: datetime = event.occurred_at
    return LogLine(
        sequence=sequence,
        timestamp=at,
        level=level,
        step=event.type,
        message=message,
        details=details,
    )


def _lifecycle(event: Event) -> tuple[Level, str]:
    match event:
        case RunSubmitted(data=data):
            pin = data.benchmark
            return "info", (
                f"{event.actor} asks for {len(data.agents)} agents on "
                f"{data.selection.task_count} tasks of {pin.name}, version {pin.version} "
                f"({pin.digest}), {data.expected_results} results expected"
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
            return "info", f"{len(data.slots)} results are to run again: {data.reason}"
        case _:
            return "info", event.type


def _attempt(event: AttemptEvent, agents: list[Agent]) -> tuple[Level, str]:
    match event:
        case AttemptStarted(data=data):
            again = f" (handed out {data.delivery} times)" if data.delivery > 1 else ""
            said = f"{_name(event, agents)} began in {data.environment} on {data.runner}{again}"
            return "info", said
        case AttemptRetried(data=data):
            return "warning", f"{_name(event, agents)} follows: {data.reason}"
        case ResultIngested(data=data):
            said = f"{_name(event, agents)} ended after {data.duration_seconds:.1f} s"
            if data.exception is not None:
                where = data.exception.phase.value
                return "warning", f"{said}: {data.exception.type} in {where}"
            return "info", said
        case ResultGraded(data=data):
            said = f"{_name(event, agents)} {data.outcome.value}"
            if data.reward is not None:
                said += f" (reward {data.reward:g}, {data.reward_rule})"
            if data.outcome is Outcome.PASSED:
                return "info", said
            level: Level = "error" if data.outcome is Outcome.ERRORED else "info"
            return level, f"{said}: {data.cause}: {data.reason}"
        case _:
            return "info", event.type


def _name(
    event: AttemptStarted | AttemptRetried | ResultIngested | ResultGraded, agents: list[Agent]
) -> str:
    data = event.data
    agent = agents[data.slot.agent]
    who = agent.harness or "the benchmark's own agent loop"
    if agent.model is not None:
        who = f"{agent.model_label} ({who})"
    again = f", try {data.try_number}" if data.try_number > 1 else ""
    return f"attempt {data.slot.attempt} of {data.slot.task} by {who}{again}"
