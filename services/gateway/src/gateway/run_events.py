"""A run's events exactly as they lie in the stream: in pages, and live."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass
from uuid import UUID

from assay_contracts.http import EventPage
from assay_contracts.identity import Permission
from assay_contracts.lifecycle import RunLifecycle, evolve_run
from assay_contracts.run_events import RunEvent
from assay_kernel.cursor import StoredMessage, read_stored
from assay_kernel.event_store import EventStore, lifecycle_filter
from gateway.live.event_stream import EventStream
from gateway.live.feed import Live, Step
from gateway.live.position import Position
from gateway.live.standing import Standing
from gateway.live.told import as_stored
from gateway.live.wanted import RUNS, Wanted

_LAST_TYPES = {"finished", "failed", "stopped", "deleted"}
_FIRST_TYPES = {"submitted", "reopened"}


@dataclass(frozen=True)
class Messages:
    """Some of a run's messages in stream order; `next_after` where there are more."""

    run: UUID
    items: list[StoredMessage]
    next_after: int | None


def subjects_of(workspace: str, run: UUID) -> list[str]:
    """Everything that is told about a run."""
    return [f"{RunEvent.stream.lower()}.{workspace}.{run}.>"]


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


async def live_run(
    live: Live, store: EventStore, standing: Standing, run: UUID, *, after: int
) -> EventStream:
    """Server-Sent Events after a sequence, until the run has ended and all is told.

    The id of each is its sequence, from which a client that was cut off goes on.
    """
    workspace = standing.asking.workspace
    loaded = await store.load(
        RunEvent.stream, lifecycle_filter(workspace, run), RunLifecycle(), evolve_run
    )
    has_ended = loaded.state.status.is_terminal and loaded.sequence <= after

    async def until_the_end() -> AsyncGenerator[Step]:
        ended = has_ended
        steps = live.follow(
            Wanted(workspace, [RUNS], run=run),
            Position({RUNS: after}),
            still_allowed=lambda: standing.check(frozenset({Permission.READ})),
            has_ended=lambda: ended,
        )
        async with aclosing(steps):
            async for position, event in steps:
                if event is not None:
                    ended = (ended or event.kind in _LAST_TYPES) and event.kind not in _FIRST_TYPES
                yield position, event

    return EventStream(until_the_end(), lambda position: str(position[RUNS]))
