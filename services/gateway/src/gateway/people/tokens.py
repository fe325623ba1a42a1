"""API tokens: created for oneself, listed, revoked."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from fastapi import APIRouter, Depends
from sqlalchemy import RowMapping
from sqlalchemy.ext.asyncio import AsyncConnection

from assay_contracts.http import CreatedToken, CreateToken, Page, TokenEntry
from assay_contracts.identifiers import new_id
from assay_contracts.identity import Permission
from assay_contracts.problems import ProblemCode
from gateway.access import Administering, Operating, Somebody, SomebodyNow
from gateway.desk import DeskNow
from gateway.idempotency import answer_not_kept
from gateway.paging import Limit, Offset, page
from gateway.people import queries
from gateway.people.credentials import hashed, new_token
from gateway.people.identity import Identity
from gateway.problems import ProblemError, conflict, not_found

router = APIRouter(tags=["tokens"])


@router.get("/tokens", summary="List your tokens")
async def list_own(
    asking: SomebodyNow, desk: DeskNow, limit: Limit = 50, offset: Offset = 0
) -> Page[TokenEntry]:
    """Those that are not revoked, the newest first."""
    async with desk.acting() as connection:
        items, total = await queries.list_tokens(
            connection, queries.tokens_of(asking.user), limit, offset
        )
    return page(items, total, offset)


@router.get("/tokens/workspace", summary="List a workspace's tokens")
async def list_of_workspace(
    asking: Administering, desk: DeskNow, limit: Limit = 50, offset: Offset = 0
) -> Page[TokenEntry]:
    """Everybody's tokens that are good for this workspace alone."""
    async with desk.acting() as connection:
        items, total = await queries.list_tokens(
            connection, queries.tokens_in(asking.workspace), limit, offset
        )
    return page(items, total, offset)


@router.get("/users/{user}/tokens", summary="List a user's tokens")
async def list_of_user(
    user: str, _: Operating, desk: DeskNow, limit: Limit = 50, offset: Offset = 0
) -> Page[TokenEntry]:
    """By an operator."""
    async with desk.acting() as connection:
        items, total = await queries.list_tokens(connection, queries.tokens_of(user), limit, offset)
    return page(items, total, offset)


@router.post(
    "/tokens", status_code=201, summary="Create a token", dependencies=[Depends(answer_not_kept)]
)
async def create(body: CreateToken, asking: SomebodyNow, desk: DeskNow) -> CreatedToken:
    """For yourself. The token is told now and never again; only its hash is kept."""
    wanted = _narrowed(body, asking.identity)
    async with desk.acting() as connection:
        created = await issue(connection, asking.user, wanted)
        await desk.audit.tell(
            connection,
            asking,
            "token-created",
            str(created.id),
            {"name": body.name, "scopes": ", ".join(wanted.scopes or ["all"])},
            workspace=wanted.workspace,
        )
    return created


@router.delete("/tokens/{token}", status_code=204, summary="Revoke a token")
async def revoke(token: UUID, asking: SomebodyNow, desk: DeskNow) -> None:
    """Your own, though by a token that is cut to less only itself; an admin also those of its
    workspace, an operator any."""
    async with desk.acting() as connection:
        row = await queries.find_token(connection, token)
        if row is None or not _may_revoke(asking.identity, row):
            raise not_found(
                "there is no token with this id that you could revoke; `assay token list` shows "
                "yours"
            )
        await queries.revoke_token(connection, token, datetime.now(UTC))
        await desk.audit.tell(
            connection,
            asking,
            "token-revoked",
            str(token),
            {"name": row["name"], "user": row["user"]},
            workspace=row["workspace"],
        )
    desk.directory.forget()


def _may_revoke(identity: Identity, token: RowMapping) -> bool:
    is_whole = identity.scopes is None and identity.workspace is None
    if identity.operates or token["id"] == identity.token_id:
        return True
    if is_whole and token["user"] == identity.user:
        return True
    workspace = token["workspace"]
    allowed = None if workspace is None else identity.permissions_in(workspace)
    return allowed is not None and Permission.ADMIN in allowed


@dataclass(frozen=True)
class Wanted:
    """What a token is to be: `scopes` None is everything that its user may do."""

    name: str
    workspace: str | None
    scopes: Sequence[str] | None
    expires_at: datetime | None


def _narrowed(body: CreateToken, identity: Identity) -> Wanted:
    """What was asked for, which must not reach further than what it is asked with.

    Raises:
        ProblemError: it would.
    """
    workspace = body.workspace or identity.workspace
    if workspace is not None and workspace not in identity.visible:
        raise not_found(f"there is no workspace {workspace} that you can see")
    scopes = None if body.scopes is None else set(body.scopes)
    if identity.scopes is not None:
        scopes = set(identity.scopes) if scopes is None else scopes
        beyond = sorted(one.value for one in scopes - identity.scopes)
        if beyond:
            raise ProblemError(
                ProblemCode.FORBIDDEN,
                403,
                f"the token that you ask with has not the scopes {', '.join(beyond)}",
            )
    days = body.expires_in_days
    until = None if days is None else datetime.now(UTC) + timedelta(days=days)
    if identity.token_id is not None and identity.expires_at is not None:
        until = min(until or identity.expires_at, identity.expires_at)
    return Wanted(
        name=body.name,
        workspace=workspace,
        scopes=None if scopes is None else sorted(one.value for one in scopes),
        expires_at=until,
    )


async def issue(connection: AsyncConnection, user: str, wanted: Wanted) -> CreatedToken:
    """Make a token for a user, in the caller's transaction."""
    token = new_token()
    values: dict[str, Any] = {
        "id": new_id(),
        "name": wanted.name,
        "user": user,
        "workspace": wanted.workspace,
        "scopes": wanted.scopes,
        "created_at": datetime.now(UTC),
        "expires_at": wanted.expires_at,
        "last_used_at": None,
        "revoked_at": None,
    }
    await queries.add_token(connection, values | {"hash": hashed(token)})
    return CreatedToken(**values, token=token)


async def revoke_own(asking: Somebody, desk: Any) -> None:
    """Revoke the token that somebody asks with.

    Raises:
        ProblemError: it is the installation's own, which is a file.
    """
    token = asking.identity.token_id
    if token is None:
        raise conflict("the installation's own token is a file in its data folder; it stays")
    await revoke(token, asking, desk)
