"""One reader at a stream's end, which hands every event to the listeners that it concerns.

There is a reader while there is a listener, and one alone however many listen: a thousand
listeners cost the NATS server one consumer. Handing on never waits: a listener that does not keep
up with what it is handed loses it, knows that it did, and takes it from the stream itself.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import structlog

from assay_kernel.cursor import Cursor
from assay_kernel.event_store import EventStore
from gateway.live.told import Told, owner_of, told

MOST_WAITING = 2000
"""Events that one listener may be behind the streams' end."""

_BATCH = 200

log = structlog.get_logger(__name__)


class Listener:
    """What one who listens has yet to be told; `concerns` says which events that can be."""

    def __init__(
        self, concerns: Callable[[Told], bool], *, most_waiting: int = MOST_WAITING
    ) -> None:
        self._concerns = concerns
        self._most_waiting = most_waiting
        self._waiting: deque[Told] = deque()
        self._woken = asyncio.Event()
        self.has_lost = False
        """More arrived than may wait: what waits is no longer all."""
        self.is_ended = False
        """Nothing will arrive any more."""

    def offer(self, event: Told) -> None:
        """Hand it an event, if it concerns it."""
        if self.has_lost or not self._concerns(event):
            return
        if len(self._waiting) >= self._most_waiting:
            self._waiting.clear()
            self.has_lost = True
        else:
            self._waiting.append(event)
        self._woken.set()

    def end(self) -> None:
        """Let it know that nothing will arrive any more."""
        self.is_ended = True
        self._woken.set()

    def start_over(self) -> None:
        """Begin again to keep what arrives, once the loss is known."""
        self._waiting.clear()
        self.has_lost = False

    @property
    def is_empty(self) -> bool:
        """True where nothing waits and nothing was lost."""
        return not self._waiting and not self.has_lost

    def taken(self) -> Iterator[Told]:
        """All that waits, in order; taken as it is asked for."""
        while self._waiting:
            yield self._waiting.popleft()

    async def wait(self, seconds: float) -> None:
        """Return when something waits, was lost or has ended, or after `seconds`."""
        if self.is_empty and not self.is_ended:
            self._woken.clear()
            try:
                async with asyncio.timeout(seconds):
                    await self._woken.wait()
            except TimeoutError:
                return


class Tail:
    """The end of one stream."""

    def __init__(self, store: EventStore, stream: str, closing: asyncio.Event) -> None:
        self._store = store
        self._stream = stream
        self._closing = closing
        self._listeners: dict[str, set[Listener]] = {}
        self._opening = asyncio.Lock()
        self._reading: asyncio.Task[None] | None = None
        self._ending: set[asyncio.Task[None]] = set()
        self.position = 0
        """While somebody listens: everything up to this sequence was handed on."""

    @asynccontextmanager
    async def heard_by(self, listener: Listener, owners: Sequence[str]) -> AsyncIterator[None]:
        """Hand a listener every event of some owners after `position`, as it is on entering."""
        async with self._opening:
            if self._reading is None:
                self.position = await self._store.last_sequence(self._stream)
                self._reading = asyncio.create_task(self._read(), name=f"tail {self._stream}")
            for owner in owners:
                self._listeners.setdefault(owner, set()).add(listener)
        try:
            yield
        finally:
            for owner in owners:
                self._leave(owner, listener)

    def _leave(self, owner: str, listener: Listener) -> None:
        listeners = self._listeners.get(owner, set())
        listeners.discard(listener)
        if not listeners:
            self._listeners.pop(owner, None)
        if not self._listeners and self._reading is not None:
            reading, self._reading = self._reading, None
            reading.cancel()
            self._ending.add(reading)
            reading.add_done_callback(self._ending.discard)

    async def _read(self) -> None:
        """Hand on until the server closes; an error ends the listeners, who come back."""
        try:
            async with Cursor(self._store.client, self._stream, [], after=self.position) as cursor:
                await self._hand_on(cursor)
        except Exception:
            log.exception("tail-broke", stream=self._stream)
        self._end_all()

    async def _hand_on(self, cursor: Cursor) -> None:
        while (batch := await _unless(self._closing, cursor.batch(_BATCH))) is not None:
            for message in batch:
                if listeners := self._listeners.get(owner_of(message)):
                    event = told(message)
                    for listener in listeners:
                        listener.offer(event)
                self.position = message.sequence

    def _end_all(self) -> None:
        for listeners in self._listeners.values():
            for listener in listeners:
                listener.end()
        self._listeners.clear()
        self._reading = None


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
