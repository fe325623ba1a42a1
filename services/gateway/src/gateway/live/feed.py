"""Everything that a listener wants, in order: what is stored, then what happens, without a seam.

A listener first stands at the streams' ends and lets what arrives wait, and only then reads what is
stored after its position. What it meets twice is known by its sequence. Where the stored part is so
long that what waits overflows meanwhile, it reads on; where it is at the end and still does not
keep up, it is let go, and told from where to come back.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack

import structlog

from assay_kernel.database import is_outage
from assay_kernel.event_store import EventStore
from gateway.live.position import Position
from gateway.live.stored import Archive
from gateway.live.tail import Listener, Tail
from gateway.live.told import Told
from gateway.live.wanted import AUDIT, BENCHMARKS, RUNS, Wanted
from gateway.problems import unavailable

CHECK_SECONDS = 5.0
"""How often it is checked whether one who listens still may."""

SIGN_SECONDS = 15.0
"""How often one who hears nothing is sent a sign of life."""

_PASSAGE = 500

log = structlog.get_logger(__name__)

Check = Callable[[], Awaitable[object]]
Step = tuple[Position, Told | None]
"""Where the listener stands now, and the event that brought it there; None for a sign of life."""


class Live:
    """The streams' ends, and what they hold. One instance serves the process."""

    def __init__(self, store: EventStore, closing: asyncio.Event) -> None:
        self.archive = Archive(store)
        self._closing = closing
        self._tails: Mapping[str, Tail] = {
            stream: Tail(store, stream, closing) for stream in (RUNS, BENCHMARKS, AUDIT)
        }

    async def follow(
        self,
        wanted: Wanted,
        after: Position | None,
        *,
        still_allowed: Check,
        has_ended: Callable[[], bool] = lambda: False,
    ) -> AsyncGenerator[Step]:
        """Every wanted event after a position, or from now on where there is none.

        The first step says where it begins. It ends where `has_ended`, with everything told, or
        where the server closes.

        Raises:
            ProblemError: the listener is no longer allowed, or does not keep up.
        """
        listener = Listener(wanted.concerns)
        async with AsyncExitStack() as hearing:
            for stream in wanted.streams:
                tail = self._tails[stream]
                await hearing.enter_async_context(tail.heard_by(listener, wanted.owners(stream)))
            position = after or self._ends(wanted)
            yield position, None
            async for step in self._catch_up(wanted, position, listener, still_allowed):
                position = step[0]
                yield step
            async for step in self._keep_up(wanted, position, listener, still_allowed, has_ended):
                yield step

    def _ends(self, wanted: Wanted) -> Position:
        return Position({stream: self._tails[stream].position for stream in wanted.streams})

    async def _catch_up(
        self, wanted: Wanted, position: Position, listener: Listener, still_allowed: Check
    ) -> AsyncGenerator[Step]:
        """What is stored, until nothing stands between it and what waits."""
        clock = asyncio.get_running_loop().time
        check_at = clock() + CHECK_SECONDS
        while not self._closing.is_set():
            if listener.has_lost:
                listener.start_over()
            elif all(position[one] >= self._tails[one].position for one in wanted.streams):
                return
            has_more = True
            while has_more and not self._closing.is_set():
                if clock() >= check_at:  # one who reads slowly can make this last
                    await _check(still_allowed)
                    check_at = clock() + CHECK_SECONDS
                passage = await self.archive.passage(wanted, position, _PASSAGE)
                for step in passage.events:
                    yield step
                position, has_more = passage.position, passage.has_more
            if not listener.has_lost:
                return

    async def _keep_up(
        self,
        wanted: Wanted,
        position: Position,
        listener: Listener,
        still_allowed: Check,
        has_ended: Callable[[], bool],
    ) -> AsyncGenerator[Step]:
        """What arrives, with a sign of life where nothing does."""
        clock = asyncio.get_running_loop().time
        check_at, sign_at = clock() + CHECK_SECONDS, clock() + SIGN_SECONDS
        while True:
            for event in listener.taken():
                if event.sequence > position[event.stream]:
                    position = position.at(event.stream, event.sequence)
                    if wanted.takes(event):
                        sign_at = clock() + SIGN_SECONDS
                        yield position, event
            if listener.has_lost:
                raise unavailable(
                    "you read slower than events arrive; connect again with the id of the last "
                    "event as Last-Event-ID"
                )
            if listener.is_ended or (has_ended() and listener.is_empty):
                return
            await listener.wait(check_at - clock())
            if clock() >= check_at:
                await _check(still_allowed)
                check_at = clock() + CHECK_SECONDS
                if clock() >= sign_at and listener.is_empty:
                    sign_at = clock() + SIGN_SECONDS
                    position = self._passed_over(wanted, position)
                    yield position, None

    def _passed_over(self, wanted: Wanted, position: Position) -> Position:
        """The position of one who was told all that it wants of what was handed on."""
        for stream in wanted.streams:
            position = position.at(stream, self._tails[stream].position)
        return position


async def _check(still_allowed: Check) -> None:
    """In an outage of the database nothing can have been taken away either."""
    try:
        await still_allowed()
    except Exception as error:
        if not is_outage(error):
            raise
        log.warning("listener-unchecked", error=type(error).__name__)
