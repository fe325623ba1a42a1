"""The HTTP server as one of the service's tasks: it leaves signals alone, and ends promptly."""

import asyncio
import contextlib
from collections.abc import Iterator

import uvicorn
from fastapi import FastAPI

_DRAIN_SECONDS = 5


async def serve(app: FastAPI, host: str, port: int, closing: asyncio.Event) -> None:
    """Serve until cancelled; then `closing` ends open streams at once, and requests may finish.

    Raises:
        RuntimeError: the server ended by itself, such as where its port is taken.
    """
    config = uvicorn.Config(
        app,
        host=host,
        port=port,
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=_DRAIN_SECONDS,
    )
    server = _QuietServer(config)
    serving = asyncio.create_task(server.serve())
    try:
        await asyncio.shield(serving)
    except asyncio.CancelledError:
        closing.set()
        server.should_exit = True
        await serving
        raise
    raise RuntimeError(f"the HTTP server ended by itself; is port {port} taken?")


class _QuietServer(uvicorn.Server):
    """Leaves signals to the service, which ends all of its tasks together."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Capture none."""
        yield
