"""The HTTP server as one of the service's tasks: it leaves signals alone, and ends promptly.

What the server itself has no limits for has them here: how long a request's head may take, how long
a refused body may go on and how long it may be, and how many connections there can be.
"""

import asyncio
import contextlib
from collections.abc import Iterator
from typing import cast

import h11
import structlog
import uvicorn
from fastapi import FastAPI
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from assay_contracts.problems import PROBLEM_MEDIA_TYPE, ProblemCode
from gateway.boundary import MOST_HEAD_BYTES
from gateway.problems import ProblemError, problem_response
from gateway.settings import HttpLimits

_DRAIN_SECONDS = 5
_MOST_UNWANTED_BYTES = 64 * 1024 * 1024
"""Of a body after its answer: enough for a client that sends everything before it reads."""
_WAITING = {h11.DONE, h11.MUST_CLOSE, h11.CLOSED}

log = structlog.get_logger(__name__)


async def serve(
    app: ASGIApp, host: str, port: int, closing: asyncio.Event, limits: HttpLimits
) -> None:
    """Serve until cancelled; then `closing` ends open streams at once, and requests may finish.

    Raises:
        RuntimeError: the server ended by itself, such as where its port is taken.
    """
    server = _QuietServer(server_config(app, host, port, limits))
    serving = asyncio.create_task(server.serve())
    try:
        await asyncio.shield(serving)
    except asyncio.CancelledError:
        closing.set()
        server.should_exit = True
        await serving
        raise
    raise RuntimeError(f"the HTTP server ended by itself; is port {port} taken?")


def server_config(app: ASGIApp, host: str, port: int, limits: HttpLimits) -> uvicorn.Config:
    """How the server listens and what it puts up with."""
    return uvicorn.Config(
        cast("FastAPI", app),
        host=host,
        port=port,
        http=_limited(limits),
        ws="none",
        lifespan="on",  # by default, one that fails at its start is passed over in silence
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_keep_alive=limits.http_idle_seconds,
        timeout_graceful_shutdown=_DRAIN_SECONDS,
        h11_max_incomplete_event_size=MOST_HEAD_BYTES,
    )


class _QuietServer(uvicorn.Server):
    """Leaves signals to the service, which ends all of its tasks together."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Capture none."""
        yield


def _limited(limits: HttpLimits) -> type[H11Protocol]:
    """The server's protocol, under limits."""
    return type("LimitedProtocol", (_Protocol,), {"limits": limits})


class _Protocol(H11Protocol):
    """A connection that ends where its client is too slow, or where there are too many."""

    limits: HttpLimits
    _deadline: asyncio.TimerHandle | None = None
    _unwanted_bytes = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for the first request."""
        super().connection_made(transport)
        most = self.limits.http_connections
        if len(self.connections) > 2 * most:
            transport.abort()
            return
        if len(self.connections) > most:
            log.warning("too-many-connections", most=most)
            self.app = _busy
        self._watch(is_new=True)

    def data_received(self, data: bytes) -> None:
        """Read on."""
        super().data_received(data)
        self._watch()
        if self._waits_for_rest():
            self._unwanted_bytes += len(data)
            if self._unwanted_bytes > _MOST_UNWANTED_BYTES:
                self._unwatch()
                self.transport.close()

    def on_response_complete(self) -> None:
        """Wait for the next request, or for the rest of a body that nobody wants."""
        super().on_response_complete()
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait for nothing more."""
        super().connection_lost(exc)
        self._unwatch()

    def send_400_response(self, msg: str) -> None:
        """Refuse what is no HTTP, as every error is told."""
        error = self.conn.their_state
        is_long = len(self.conn.trailing_data[0]) > MOST_HEAD_BYTES
        log.info("malformed-request", client=self.client, state=str(error))
        if is_long:
            code, status, said = ProblemCode.TOO_LARGE, 431, "the headers are too long"
        else:
            code, status, said = ProblemCode.MALFORMED, 400, "this is no HTTP request"
        self._refuse(ProblemError(code, status, said))

    def _watch(self, *, is_new: bool = False) -> None:
        """Keep a deadline while a head is on its way, or a body after its answer."""
        if self.transport.is_closing():
            self._unwatch()
            return
        begun = is_new or bool(self.conn.trailing_data[0])
        waits_for_head = self.conn.their_state is h11.IDLE and begun
        if not (waits_for_head or self._waits_for_rest()):
            self._unwatch()
        elif self._deadline is None:
            seconds = self.limits.http_head_seconds
            self._deadline = self.loop.call_later(seconds, self._too_slow)

    def _waits_for_rest(self) -> bool:
        """Whether a body goes on although it has its answer."""
        return self.conn.their_state is h11.SEND_BODY and self.conn.our_state in _WAITING

    def _unwatch(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _too_slow(self) -> None:
        self._deadline = None
        if self.transport.is_closing():
            return
        if self.conn.our_state is not h11.IDLE:
            self.transport.close()
            return
        seconds = self.limits.http_head_seconds
        self._refuse(
            ProblemError(
                ProblemCode.REQUEST_TIMEOUT, 408, f"no request was there within {seconds:g} s"
            )
        )

    def _refuse(self, error: ProblemError) -> None:
        """Answer without an application, and close."""
        self._unwatch()
        if self.conn.our_state not in {h11.IDLE, h11.SEND_RESPONSE}:
            self.transport.close()  # an answer is under way; nothing can be put beside it
            return
        body = error.problem.model_dump_json().encode()
        headers = [
            (b"content-type", PROBLEM_MEDIA_TYPE.encode()),
            (b"content-length", str(len(body)).encode()),
            (b"cache-control", b"no-store"),
            (b"connection", b"close"),
        ]
        told = (
            h11.Response(status_code=error.problem.status, headers=headers),
            h11.Data(data=body),
            h11.EndOfMessage(),
        )
        for part in told:
            self.transport.write(self.conn.send(part))
        if self.cycle is not None and not self.cycle.response_complete:
            self.cycle.disconnected = True  # whoever works on an answer has nobody to tell it
            self.cycle.message_event.set()
        self.transport.close()


async def _busy(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer for a connection that is one too many."""
    error = ProblemError(
        ProblemCode.UNAVAILABLE,
        503,
        "too many connections at once; try again in a moment",
        headers={"Retry-After": "1", "Connection": "close"},
    )
    await problem_response(error)(scope, receive, send)
