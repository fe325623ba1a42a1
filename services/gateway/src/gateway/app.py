"""Wiring of the gateway: the application, its parts, and the server that it runs in."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterator

import structlog
import uvicorn
from fastapi import FastAPI, Request
from sqlalchemy import select
from sqlalchemy.exc import ProgrammingError
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from assay_contracts.problems import Problem, ProblemCode
from assay_contracts.values import RunStatus
from assay_kernel.blobs import BlobStore
from assay_kernel.database import is_outage, open_reader
from assay_kernel.service import Schema, Service, run_service
from gateway import benchmarks, runs, secret_endpoints, system
from gateway.access import Tokens, request_id_of
from gateway.desk import Desk
from gateway.problems import ProblemError, answer_problems, problem_response
from gateway.read_models import runs as runs_read_model
from gateway.settings import GatewaySettings
from gateway.tables import kernel, metadata
from gateway.vault import Vault

SCHEMA = Schema(package="gateway", metadata=metadata, kernel=kernel)
MOST_BODY_BYTES = 1024 * 1024
_SWEEP_SECONDS = 30.0
_DRAIN_SECONDS = 5
_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}

log = structlog.get_logger(__name__)


def build_app(desk: Desk, tokens: Tokens, closing: asyncio.Event) -> FastAPI:
    """The application, over parts that the caller keeps."""
    app = FastAPI(
        title="Assay",
        version="1",
        docs_url=None,  # its pages fetch scripts from elsewhere
        redoc_url=None,
        summary="Scores AI agents on published benchmarks and ranks them honestly.",
        responses={
            status: {"model": Problem, "description": text}
            for status, text in {
                401: "No valid token",
                404: "Not there",
                409: "The state of things does not allow it",
                422: "The request has mistakes; all are listed",
                503: "A part of the platform does not answer yet",
            }.items()
        },
    )
    app.state.desk, app.state.tokens, app.state.closing = desk, tokens, closing
    answer_problems(app)

    @app.middleware("http")
    async def identify(
        request: Request, call_next: Callable[[Request], Awaitable[Response]]
    ) -> Response:
        request.state.request_id = request_id_of(request.headers.get("X-Request-ID"))
        structlog.contextvars.bind_contextvars(correlation_id=str(request.state.request_id))
        response = await call_next(request)
        response.headers["X-Request-ID"] = str(request.state.request_id)
        for name, value in _HEADERS.items():
            response.headers.setdefault(name, value)
        return response

    app.add_middleware(LimitBody)
    for router in (
        benchmarks.router,
        runs.router,
        secret_endpoints.router,
        secret_endpoints.internal,
        system.router,
    ):
        app.include_router(router, prefix="/api/v1")
    app.include_router(system.health)
    return app


class LimitBody:
    """Refuses a request body above the limit, whatever length it was announced with.

    The body is read here, in full, before the application sees it: the framework would turn an
    error raised in the middle into one about a malformed body.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Read the body, and hand it on or refuse it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        body = b""
        message: Message = {"more_body": True}
        while message.get("more_body", False):
            message = await receive()
            body += message.get("body", b"")
            if len(body) > MOST_BODY_BYTES:
                error = ProblemError(
                    ProblemCode.TOO_LARGE, 413, f"at most {MOST_BODY_BYTES} bytes can be sent"
                )
                await problem_response(error)(scope, receive, send)
                return
        whole: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]
        if message["type"] == "http.disconnect":
            whole = [message]

        async def replayed() -> Message:
            return whole.pop() if whole else await receive()

        await self._app(scope, replayed, send)


async def wire(service: Service) -> None:
    """Build the gateway's parts."""
    settings = service.settings
    if not isinstance(settings, GatewaySettings):
        raise TypeError("the gateway needs its own settings")
    desk = Desk(
        store=service.store,
        engine=service.engine,
        reader=open_reader(settings.database_url, service.name),
        blobs=BlobStore(settings.blob_url),
        vault=Vault(service.engine, settings.master_key_file),
    )
    tokens = Tokens.read(settings.admin_token_file, settings.runner_token_file)
    closing = asyncio.Event()
    server = uvicorn.Server(
        uvicorn.Config(
            build_app(desk, tokens, closing),
            host=settings.http_host,
            port=settings.http_port,
            log_config=None,
            access_log=False,
            server_header=False,
            timeout_graceful_shutdown=_DRAIN_SECONDS,
        )
    )
    service.tasks["http"] = serve(server, closing)
    service.tasks["secret sweep"] = sweep_secrets(desk)


async def serve(server: uvicorn.Server, closing: asyncio.Event) -> None:
    """Serve until cancelled; streams that are open end at once, requests may finish."""

    @contextlib.contextmanager
    def leave_signals_alone() -> Iterator[None]:
        yield

    server.capture_signals = leave_signals_alone  # type: ignore[method-assign]
    serving = asyncio.create_task(server.serve())
    try:
        await asyncio.shield(serving)
    except asyncio.CancelledError:
        closing.set()
        server.should_exit = True
        await serving
        raise
    raise RuntimeError("the HTTP server ended by itself; is its port taken?")


async def sweep_secrets(desk: Desk) -> None:
    """Delete what was given for runs that have ended."""
    while True:
        try:
            for run in await desk.vault.runs_with_secrets():
                async with desk.reading() as connection:
                    status = await connection.scalar(
                        select(runs_read_model.c.status).where(runs_read_model.c.id == run)
                    )
                if status is not None and RunStatus(status).is_terminal:
                    await desk.vault.drop_run(run)
                    log.info("run-secrets-deleted", run=str(run))
        except ProgrammingError as error:
            log.info("sweep-waits", error=type(error.orig).__name__)
        except Exception as error:
            if not is_outage(error):
                raise
            log.warning("sweep-waits", error=str(error))
        await asyncio.sleep(_SWEEP_SECONDS)


def main() -> None:
    """Run the gateway until it is told to stop."""
    run_service("gateway", GatewaySettings(), wire, schema=SCHEMA)
