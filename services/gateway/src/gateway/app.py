"""Wiring of the gateway: the application, its parts, and the tasks that it runs in."""

import asyncio
from typing import Any

from fastapi import FastAPI

from assay_contracts.problems import PROBLEM_MEDIA_TYPE, Problem
from assay_kernel.blobs import BlobStore
from assay_kernel.database import open_reader
from assay_kernel.service import Schema, Service, run_service
from gateway import benchmarks, dead_letters, runs, sandboxes, secret_endpoints, system
from gateway.access import Tokens
from gateway.boundary import Boundary
from gateway.caching import Caching
from gateway.desk import Desk
from gateway.idempotency import Idempotency, sweep_idempotency_keys
from gateway.problems import answer_problems
from gateway.rate_limits import RateLimits
from gateway.secret_sweep import sweep_secrets
from gateway.server import serve
from gateway.settings import GatewaySettings, HttpLimits
from gateway.tables import kernel, metadata
from gateway.vault import Vault

SCHEMA = Schema(package="gateway", metadata=metadata, kernel=kernel)

_ERRORS = {
    400: "The request is no HTTP that can be understood",
    401: "No valid token",
    403: "The caller may not do this here",
    404: "Not there",
    408: "The request was not there in time",
    409: "The state of things does not allow it",
    413: "More was sent than fits",
    422: "The request has mistakes; all are listed",
    429: "Too many requests; Retry-After says when to go on",
    431: "Too many headers, or too long ones",
    500: "Something went wrong that should not",
    503: "A part of the platform does not answer yet",
}


_IDEMPOTENCY_KEY = {
    "name": "Idempotency-Key",
    "in": "header",
    "required": False,
    "description": "Chosen by the client: the same request under the same key is done once.",
    "schema": {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[!-~]+$"},
}
_IF_NONE_MATCH = {
    "name": "If-None-Match",
    "in": "header",
    "required": False,
    "description": "The ETag of an answer that the client has; 304 says that it still holds.",
    "schema": {"type": "string"},
}
_ETAG = {"description": "Names these very bytes.", "schema": {"type": "string"}}


class GatewayApp(FastAPI):
    """The application, whose OpenAPI document says of errors what they are: problem details."""

    def openapi(self) -> dict[str, Any]:
        """The document, with every error under its own media type."""
        is_new = self.openapi_schema is None
        document = super().openapi()
        if is_new:
            for path, operations in document["paths"].items():
                for method, operation in operations.items():
                    _as_problems(operation["responses"])
                    if path.startswith("/api/"):
                        _with_manners(method, operation)
        return document


def _as_problems(answers: dict[str, Any]) -> None:
    for status, answer in answers.items():
        content = answer.get("content", {})
        if int(status) in _ERRORS and "application/json" in content:
            content[PROBLEM_MEDIA_TYPE] = content.pop("application/json")


def _with_manners(method: str, operation: dict[str, Any]) -> None:
    """What the layers around the routes add to each of them."""
    match method:
        case "post":
            operation.setdefault("parameters", []).append(_IDEMPOTENCY_KEY)
        case "get" if "application/json" in operation["responses"]["200"].get("content", {}):
            operation.setdefault("parameters", []).append(_IF_NONE_MATCH)
            operation["responses"]["200"]["headers"] = {"ETag": _ETAG}
            operation["responses"]["304"] = {
                "description": "Nothing changed since the answer with this tag",
                "headers": {"ETag": _ETAG},
            }
        case _:
            pass


def build_app(
    desk: Desk,
    tokens: Tokens,
    closing: asyncio.Event,
    *,
    public_url: str | None = None,
    limits: HttpLimits | None = None,
) -> FastAPI:
    """The application, over parts that the caller keeps."""
    limits = limits or HttpLimits()
    app = GatewayApp(
        title="Assay",
        version="1",
        docs_url=None,  # its pages fetch scripts from elsewhere
        redoc_url=None,
        summary="Scores AI agents on published benchmarks and ranks them honestly.",
        servers=None if public_url is None else [{"url": public_url}],
    )
    app.state.desk, app.state.tokens, app.state.closing = desk, tokens, closing
    answer_problems(app)
    # The last one is the first that a request passes.
    app.add_middleware(Idempotency, desk)
    app.add_middleware(Caching, desk.freshness, limits.kept_answers_bytes)
    app.add_middleware(RateLimits, limits)
    app.add_middleware(Boundary, limits)
    errors: dict[int | str, dict[str, Any]] = {
        status: {"model": Problem, "description": text} for status, text in _ERRORS.items()
    }
    for router in (
        benchmarks.router,
        runs.router,
        secret_endpoints.router,
        secret_endpoints.internal,
        sandboxes.router,
        dead_letters.router,
        system.router,
    ):
        app.include_router(router, prefix="/api/v1", responses=errors)
    app.include_router(system.health)
    return app


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
    app = build_app(desk, tokens, closing, public_url=settings.public_url, limits=settings)
    service.tasks["http"] = serve(app, settings.http_host, settings.http_port, closing, settings)
    service.tasks["secret sweep"] = sweep_secrets(desk)
    service.tasks["idempotency sweep"] = sweep_idempotency_keys(desk.idempotency)


def main() -> None:
    """Run the gateway until it is told to stop."""
    run_service("gateway", GatewaySettings(), wire, schema=SCHEMA)
