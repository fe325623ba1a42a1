"""A run's events exactly as they lie in the stream: in pages, and live."""

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import orjson
from sse_starlette import EventSourceResponse, ServerSentEvent

from assay_contracts.http import EventPage, StoredEvent
from assay_contracts.lifecycle import RunLifecycle, evolve_run
from assay_contracts.run_events import RunEvent
from assay_kernel.cursor import Cursor, StoredMessage, read_stored
from assay_kernel.event_store import EventStore, lifecycle_filter

_LAST_TYPES = {"finished", "failed", "stopped", "deleted"}
_FIRST_TYPES = {"submitted", "reopened"}
_HEARTBEAT_SECONDS = 10
_BATCH = 200


@dataclass(frozen=True)
class Messages:
    """Some of a run's messages in stream order; `next_after` where there are more."""

    run: UUID
    items: list[StoredMessage]
    next_after: int | None


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
    told = await run_messages(store, workspace, run, after=after, limit=limit)
    return EventPage(items=[as_stored(one) for one in told.items], next_after=told.next_after)


async def run_messages(
    store: EventStore, workspace: str, run: UUID, *, after: int, limit: int
) -> Messages:
    """At most `limit` messages after a sequence."""
    found: list[StoredMessage] = []
    subjects = subjects_of(workspace, run)
    stored = read_stored(store.client, RunEvent.stream, subjects, after=after)
    async with aclosing(stored):  # type: ignore[type-var]  # an async generator, typed wider
        async for message in stored:
            if len(found) == limit:
                return Messages(run, found, next_after=found[-1].sequence)
            found.append(message)
    return Messages(run, found, next_after=None)


async def live(
    store: EventStore, workspace: str, run: UUID, *, after: int, closing: asyncio.Event
) -> EventSourceResponse:
    """Server-Sent Events after a sequence, until the run has ended and all is told.

    The id of each is its sequence, from which a client that was cut off goes on. Everything ends
    at once when `closing` is set.
    """
    loaded = await store.load(
        RunEvent.stream, lifecycle_filter(workspace, run), RunLifecycle(), evolve_run
    )
    has_ended = loaded.state.status.is_terminal and loaded.sequence <= after

    async def told() -> AsyncIterator[ServerSentEvent]:
        ended = has_ended
        subjects = subjects_of(workspace, run)
        async with Cursor(store.client, RunEvent.stream, subjects, after=after) as cursor:
            left = cursor.pending_at_open
            while not (ended and left <= 0):
                batch = await _unless(closing, cursor.batch(_BATCH))
                if batch is None:
                    return
                for message in batch:
                    left -= 1
                    stored = as_stored(message)
                    kind = str(stored.event["type"])
                    ended = (ended or kind in _LAST_TYPES) and kind not in _FIRST_TYPES
                    yield ServerSentEvent(
                        stored.model_dump_json(), event=kind, id=str(stored.sequence)
                    )

    return EventSourceResponse(told(), ping=_HEARTBEAT_SECONDS)


async def _unless[Found](
    closing: asyncio.Event, finding: Coroutine[Any, Any, Found]
) -> Found | None:
    """What `finding` comes to; None where `closing` is set first."""
    found = asyncio.ensure_future(finding)
    closed = asyncio.ensure_future(closing.wait())
    try:
        await asyncio.wait([found, closed], return_when=asyncio.FIRST_COMPLETED)
        return found.result() if found.done() and not closed.done() else None
    finally:
        found.cancel()
        closed.cancel()
        await asyncio.gather(found, closed, return_exceptions=True)
