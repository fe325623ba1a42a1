"""A feed as Server-Sent Events: each event under its position as id, and the end with its reason.

A comment, or an id alone, is a sign of life. A stream that ends because of something says so in an
event of the type `problem`, whose data is the problem's document.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing

import structlog
from sse_starlette import ServerSentEvent
from starlette.responses import StreamingResponse
from starlette.types import Message, Send

from assay_kernel.database import is_outage
from gateway.live.feed import Step
from gateway.live.position import Position
from gateway.live.told import Told
from gateway.problems import ProblemError, unavailable

PROBLEM = "problem"
_SEND_SECONDS = 30.0
_BACK_AFTER_MILLISECONDS = 1000

log = structlog.get_logger(__name__)


class EventStream(StreamingResponse):
    """The answer; one who takes nothing for half a minute is let go."""

    media_type = "text/event-stream"

    def __init__(self, steps: AsyncGenerator[Step], named: Callable[[Position], str]) -> None:
        self._own_pieces = _pieces(steps, named)
        super().__init__(self._own_pieces, headers={"X-Accel-Buffering": "no"})

    async def stream_response(self, send: Send) -> None:
        """Send the pieces as they come."""

        async def soon(message: Message) -> None:
            async with asyncio.timeout(_SEND_SECONDS):
                await send(message)

        async with aclosing(self._own_pieces):
            try:
                await super().stream_response(soon)
            except TimeoutError:
                log.info("listener-stuck")


async def _pieces(
    steps: AsyncGenerator[Step], named: Callable[[Position], str]
) -> AsyncGenerator[bytes]:
    told_id = ""
    try:
        async with aclosing(steps):
            async for position, event in steps:
                name = named(position)
                yield _piece(name, event, is_new=name != told_id)
                told_id = name
    except ProblemError as error:
        yield _problem(error)
    except Exception as error:
        if not is_outage(error):
            raise
        yield _problem(unavailable("a part of the platform does not answer; connect again"))


def _piece(name: str, event: Told | None, *, is_new: bool) -> bytes:
    if event is not None:
        return ServerSentEvent(event.text, event=event.kind, id=name).encode()
    if is_new:
        return ServerSentEvent(id=name, retry=_BACK_AFTER_MILLISECONDS).encode()
    return ServerSentEvent(comment="alive").encode()


def _problem(error: ProblemError) -> bytes:
    return ServerSentEvent(error.problem.model_dump_json(), event=PROBLEM).encode()
