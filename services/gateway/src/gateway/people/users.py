"""Users of the installation; operators look after them."""

from datetime import UTC, datetime
from typing import Any

from fastapi import APIRouter, Depends
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncConnection

from assay_contracts.audit_events import INSTALLATION
from assay_contracts.http import (
    ChangeUser,
    CreatedUser,
    CreateUser,
    Invitation,
    Page,
    UserEntry,
)
from assay_contracts.run_config import ConfigIssue
from gateway.access import ADMIN, Operating
from gateway.desk import DeskNow
from gateway.idempotency import answer_not_kept
from gateway.paging import Limit, Offset, page
from gateway.people import queries
from gateway.people.addresses import PublicAddress
from gateway.people.credentials import INVITATION_LIFETIME, hashed, new_code
from gateway.problems import conflict, invalid, not_found

router = APIRouter(prefix="/users", tags=["users"])


@router.get("", summary="List users")
async def list_all(
    _: Operating, desk: DeskNow, limit: Limit = 50, offset: Offset = 0
) -> Page[UserEntry]:
    """Every user of the installation by name."""
    async with desk.acting() as connection:
        items, total = await queries.list_users(connection, limit, offset)
    return page(items, total, offset)


@router.post("", status_code=201, summary="Create a user", dependencies=[Depends(answer_not_kept)])
async def create(
    body: CreateUser, asking: Operating, desk: DeskNow, address: PublicAddress
) -> CreatedUser:
    """The answer holds an invitation, told once: pass it on, and the user sets a password."""
    now = datetime.now(UTC)
    values: dict[str, Any] = {
        "name": body.name,
        "email": body.email.lower(),
        "display_name": body.display_name or body.name,
        "operator": body.operator,
        "created_at": now,
        "created_by": asking.user,
    }
    async with desk.acting() as connection:
        if not await queries.add_user(connection, values):
            raise conflict("the name or the e-mail address belongs to another user already")
        if body.workspace is not None:
            if body.workspace not in asking.identity.roles:
                raise not_found(f"there is no workspace {body.workspace}")
            await queries.set_member(connection, body.workspace, body.name, body.role, now)
            await desk.audit.tell(
                connection,
                asking,
                "member-set",
                body.name,
                {"role": body.role.value},
                workspace=body.workspace,
            )
        await desk.audit.tell(
            connection,
            asking,
            "user-created",
            body.name,
            {"operator": str(body.operator).lower(), "workspace": body.workspace or "none"},
            workspace=INSTALLATION,
        )
        invitation = await _invite(connection, body.name, address)
        row = await queries.find_user(connection, body.name)
    if row is None:
        raise RuntimeError("a user vanished in its own transaction")
    return CreatedUser(**queries.user_entry(row).model_dump(), invitation=invitation)


@router.patch("/{name}", summary="Change a user")
async def change(name: str, body: ChangeUser, asking: Operating, desk: DeskNow) -> UserEntry:
    """Its address, its name, whether it is an operator; whom is disabled can do nothing more."""
    wanted = body.model_dump(exclude_none=True, exclude={"disabled"})
    if body.email is not None:
        wanted["email"] = body.email.lower()
    if body.disabled is not None:
        wanted["disabled_at"] = datetime.now(UTC) if body.disabled else None
    if not wanted:
        raise invalid([ConfigIssue(key="body", message="must name something to change")])
    try:
        async with desk.acting() as connection:
            await _require_user(connection, name)
            if name == ADMIN and (body.operator is False or body.disabled):
                raise conflict(f"{ADMIN} is whom the installation's own token stands for; it stays")
            await queries.change_user(connection, name, wanted)
            if body.disabled:
                await queries.end_sessions(connection, name)
            told = {key: str(value) for key, value in body.model_dump(exclude_none=True).items()}
            await desk.audit.tell(
                connection, asking, "user-changed", name, told, workspace=INSTALLATION
            )
            row = await _require_user(connection, name)
    except IntegrityError as error:
        raise conflict("the e-mail address belongs to another user already") from error
    desk.directory.forget()
    return queries.user_entry(row)


@router.post(
    "/{name}/invitation",
    status_code=201,
    summary="Invite a user again",
    dependencies=[Depends(answer_not_kept)],
)
async def invite(name: str, asking: Operating, desk: DeskNow, address: PublicAddress) -> Invitation:
    """A new code with which the user sets a password; earlier ones are void."""
    async with desk.acting() as connection:
        await _require_user(connection, name)
        await desk.audit.tell(connection, asking, "user-invited", name, workspace=INSTALLATION)
        return await _invite(connection, name, address)


async def _invite(connection: AsyncConnection, user: str, address: str) -> Invitation:
    code, until = new_code(), datetime.now(UTC) + INVITATION_LIFETIME
    await queries.invite(connection, user, hashed(code), until)
    return Invitation(
        user=user, code=code, address=f"{address}/sign-in/invitation", expires_at=until
    )


async def _require_user(connection: AsyncConnection, name: str) -> Any:
    row = await queries.find_user(connection, name)
    if row is None:
        raise not_found(f"there is no user {name}; assay user list shows them")
    return row
