"""What the streams hold already, in pages over all of them, by the time it was stored."""

import asyncio
import heapq
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import dataclass

from assay_kernel.cursor import StoredMessage, read_stored
from assay_kernel.event_store import EventStore
from gateway.live.position import Position
from gateway.live.told import Told, told
from gateway.live.wanted import Wanted

_READING_AT_ONCE = 16


@dataclass(frozen=True)
class Passage:
    """Wanted events, each with the position after it; where they end, and whether there is more."""

    events: Sequence[tuple[Position, Told]]
    position: Position
    has_more: bool


class Archive:
    """Reads what is stored. Few read at once, however many come back after an outage."""

    def __init__(self, store: EventStore) -> None:
        self._store = store
        self._places = asyncio.Semaphore(_READING_AT_ONCE)

    async def passage(self, wanted: Wanted, after: Position, limit: int) -> Passage:
        """At most `limit` messages, of which those are told that are wanted.

        With `has_more` False it holds everything that was stored when it was called.
        """
        async with self._places:
            stretches = [
                await self._stretch(stream, wanted.subjects(stream), after[stream], limit + 1)
                for stream in wanted.streams
            ]
        merged = list(heapq.merge(*stretches, key=lambda one: (one.stored_at, one.stream)))
        position, events = after, list[tuple[Position, Told]]()
        for message in merged[:limit]:
            event = told(message)
            position = position.at(event.stream, event.sequence)
            if wanted.takes(event):
                events.append((position, event))
        return Passage(events, position, has_more=len(merged) > limit)

    async def _stretch(
        self, stream: str, subjects: Sequence[str], after: int, limit: int
    ) -> list[StoredMessage]:
        found: list[StoredMessage] = []
        stored = read_stored(self._store.client, stream, subjects, after=after)
        async with aclosing(stored):  # type: ignore[type-var]  # an async generator, typed wider
            async for message in stored:
                found.append(message)
                if len(found) == limit:
                    break
        return found
