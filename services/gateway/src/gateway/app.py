"""Wiring of the gateway: the application, its parts, and the tasks that it runs in."""

import asyncio
from decimal import Decimal
from typing import Any

from fastapi import Depends, FastAPI
from sqlalchemy.ext.asyncio import AsyncEngine

from assay_contracts.http import BillingMode
from assay_contracts.problems import Problem
from assay_kernel.blobs import BlobStore
from assay_kernel.database import open_reader
from assay_kernel.service import Schema, Service, run_service
from gateway import (
    audit_endpoints,
    benchmarks,
    billing_endpoints,
    dead_letters,
    runs,
    sandboxes,
    secret_endpoints,
    sql,
    system,
)
from gateway.access import Tokens
from gateway.audit import Audit
from gateway.audit_projection import AuditProjection
from gateway.billing import Gate, OpenGate
from gateway.billing_budget import BudgetGate
from gateway.billing_estimates import Flat
from gateway.billing_queries import Limits
from gateway.billing_webhook import WebhookGate, read_secret
from gateway.boundary import Boundary
from gateway.caching import Caching
from gateway.desk import Desk
from gateway.downloads import endpoints as downloads
from gateway.downloads.sweep import sweep_exports
from gateway.idempotency import Idempotency, sweep_idempotency_keys
from gateway.live import endpoints as live_endpoints
from gateway.live.feed import Live
from gateway.master_keys import KeySource
from gateway.mcp.server import serve_mcp
from gateway.openapi import GatewayApp
from gateway.osmosis.router import serve_osmosis
from gateway.pages import accounts, single_sign_on
from gateway.parameters import only_known
from gateway.people import devices, sessions, tokens, users, workspaces
from gateway.people.attempts import Attempts
from gateway.people.openid import OpenIdProvider
from gateway.problems import answer_problems
from gateway.rate_limits import RateLimits
from gateway.secret_sweep import sweep_secrets
from gateway.server import serve
from gateway.settings import GatewaySettings, HttpLimits
from gateway.spending_projection import SpendingProjection
from gateway.sql_queries import SqlDesk, SqlLimits
from gateway.sql_views import make_views
from gateway.tables import kernel, metadata
from gateway.vault import Vault

SCHEMA = Schema(package="gateway", metadata=metadata, kernel=kernel)

_ERRORS = {
    400: "The request is no HTTP that can be understood",
    401: "No valid token or session",
    403: "Not allowed to whom asks",
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


def build_app(
    desk: Desk,
    own_tokens: Tokens,
    closing: asyncio.Event,
    *,
    sql_desk: SqlDesk | None = None,
    public_url: str | None = None,
    openid: OpenIdProvider | None = None,
    limits: HttpLimits | None = None,
) -> FastAPI:
    """The application, over parts that the caller keeps; no queries without `sql_desk`."""
    limits = limits or HttpLimits()
    app = GatewayApp(
        title="Assay",
        version="1",
        docs_url=None,  # its pages fetch scripts from elsewhere
        redoc_url=None,
        summary="Scores AI agents on published benchmarks and ranks them honestly.",
        servers=None if public_url is None else [{"url": public_url}],
    )
    app.state.desk, app.state.tokens, app.state.closing = desk, own_tokens, closing
    app.state.public_url, app.state.openid = public_url, openid
    app.state.live = Live(desk.store, closing)
    app.state.sql = sql_desk
    app.state.attempts = Attempts()
    answer_problems(app)
    # The last one is the first that a request passes.
    app.add_middleware(Idempotency, desk)
    app.add_middleware(Caching, desk.freshness, limits.kept_answers_bytes)
    app.add_middleware(RateLimits, limits, desk.vault)
    app.add_middleware(Boundary, limits)
    errors: dict[int | str, dict[str, Any]] = {
        status: {"model": Problem, "description": text} for status, text in _ERRORS.items()
    }
    for router in (
        benchmarks.router,
        runs.router,
        downloads.router,
        downloads.addressed,
        live_endpoints.router,
        secret_endpoints.router,
        secret_endpoints.internal,
        billing_endpoints.router,
        sandboxes.router,
        dead_letters.router,
        sql.router,
        system.router,
        audit_endpoints.router,
        workspaces.router,
        users.router,
        tokens.router,
        sessions.router,
        devices.router,
    ):
        app.include_router(
            router, prefix="/api/v1", responses=errors, dependencies=[Depends(only_known)]
        )
    app.include_router(system.health)
    app.include_router(accounts.router)
    app.include_router(single_sign_on.router)
    serve_osmosis(app)
    serve_mcp(app)
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
        vault=Vault(service.engine, _key_source(settings)),
        audit=Audit(service.outbox()),
    )
    await desk.vault.load_keys()
    service.project(AuditProjection())
    desk.gate = _gate(settings, desk, service)
    own_tokens = Tokens.read(settings.admin_token_file, settings.runner_token_file)
    closing = asyncio.Event()
    app = build_app(
        desk,
        own_tokens,
        closing,
        sql_desk=await _sql_desk(service.engine, settings),
        public_url=settings.public_url,
        openid=_openid(settings),
        limits=settings,
    )
    service.tasks["http"] = serve(app, settings.http_host, settings.http_port, closing, settings)
    service.tasks["secret sweep"] = sweep_secrets(desk)
    service.tasks["idempotency sweep"] = sweep_idempotency_keys(desk.idempotency)
    service.tasks["export sweep"] = sweep_exports(desk.blobs)


def _gate(settings: GatewaySettings, desk: Desk, service: Service) -> Gate:
    """The billing gate; what is spent is counted only where it asks for that."""
    flat = Flat(Decimal(str(settings.billing_slot_usd)), Decimal(str(settings.billing_slot_hours)))
    url, secret = settings.billing_webhook_url, settings.billing_webhook_secret_file
    if settings.billing is BillingMode.BUDGET:
        service.project(SpendingProjection())
        default = Limits.of(settings.billing_usd, settings.billing_sandbox_hours)
        return BudgetGate(desk, service.engine, default, flat)
    if settings.billing is BillingMode.WEBHOOK and url is not None and secret is not None:
        return WebhookGate(
            desk,
            url.get_secret_value(),
            read_secret(secret),
            seconds=settings.billing_webhook_seconds,
            unreachable=settings.billing_webhook_unreachable,
            flat=flat,
        )
    return OpenGate()


def _key_source(settings: GatewaySettings) -> KeySource:
    command = settings.master_key_command
    return KeySource(
        file=settings.master_key_file,
        command=None if command is None else command.get_secret_value(),
        seconds=settings.master_key_seconds,
    )


def _openid(settings: GatewaySettings) -> OpenIdProvider | None:
    if settings.openid_issuer is None:
        return None
    return OpenIdProvider(
        name=settings.openid_name,
        issuer=settings.openid_issuer,
        client_id=settings.openid_client_id,
        client_secret_file=settings.openid_client_secret_file,
        workspace=settings.openid_workspace,
        role=settings.openid_role,
    )


async def _sql_desk(engine: AsyncEngine, settings: GatewaySettings) -> SqlDesk | None:
    if settings.sql_database_url is None:
        return None
    await make_views(engine)
    limits = SqlLimits(
        settings.sql_seconds, settings.sql_rows, settings.sql_bytes, settings.sql_at_once
    )
    return SqlDesk(engine, settings.sql_database_url, limits)


def main() -> None:
    """Run the gateway until it is told to stop."""
    run_service("gateway", GatewaySettings(), wire, schema=SCHEMA)
