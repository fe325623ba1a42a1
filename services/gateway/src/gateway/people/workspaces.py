"""Workspaces and their members."""

from datetime import UTC, datetime

from fastapi import APIRouter
from sqlalchemy.exc import IntegrityError

from assay_contracts.audit_events import INSTALLATION
from assay_contracts.http import (
    ChangeWorkspace,
    CreateWorkspace,
    MemberEntry,
    Page,
    SetMember,
    WorkspaceEntry,
)
from assay_contracts.identifiers import MANAGED_WORKSPACE
from assay_contracts.identity import Permission, Role
from assay_contracts.run_config import ConfigIssue
from gateway import run_queries
from gateway.access import (
    AdministeringNamed,
    Caller,
    Operating,
    OwningNamed,
    ReadingNamed,
    SomebodyNow,
    require,
)
from gateway.desk import DeskNow
from gateway.paging import page
from gateway.people import queries
from gateway.problems import ProblemError, conflict, invalid, not_found

router = APIRouter(prefix="/workspaces", tags=["workspaces"])

_RESERVED = {MANAGED_WORKSPACE, INSTALLATION}


@router.get("", summary="List your workspaces")
async def list_all(asking: SomebodyNow, desk: DeskNow) -> Page[WorkspaceEntry]:
    """Those that you are a member of, by name; an operator sees every one."""
    async with desk.acting() as connection:
        found = await queries.workspaces_seen(connection, asking.identity)
    return page(found, len(found), 0)


@router.post("", status_code=201, summary="Create a workspace")
async def create(body: CreateWorkspace, asking: Operating, desk: DeskNow) -> WorkspaceEntry:
    """By an operator; its owner is who is named, else who creates it."""
    if body.name in _RESERVED:
        raise invalid([ConfigIssue(key="name", message="is reserved; choose another")])
    owner, now = body.owner or asking.user, datetime.now(UTC)
    async with desk.acting() as connection:
        if await queries.find_user(connection, owner) is None:
            raise not_found(f"there is no user {owner}; assay user list shows them")
        if not await queries.add_workspace(
            connection, body.name, body.repository, asking.user, now
        ):
            raise conflict("the name, or the repository, belongs to another workspace already")
        await queries.set_member(connection, body.name, owner, Role.OWNER, now)
        await desk.audit.tell(
            connection,
            asking,
            "workspace-created",
            body.name,
            {"owner": owner},
            workspace=body.name,
        )
    desk.directory.forget()
    return WorkspaceEntry(
        name=body.name,
        repository=body.repository,
        role=Role.OWNER,
        created_at=now,
        created_by=asking.user,
    )


@router.get("/{name}", summary="Show a workspace")
async def show(name: str, asking: ReadingNamed, desk: DeskNow) -> WorkspaceEntry:
    """What it is connected to, and what you are in it."""
    async with desk.acting() as connection:
        seen = await queries.workspaces_seen(connection, asking.identity)
    return next(one for one in seen if one.name == name)


@router.patch("/{name}", summary="Connect a workspace to a repository")
async def change(
    name: str, body: ChangeWorkspace, asking: AdministeringNamed, desk: DeskNow
) -> WorkspaceEntry:
    """Osmosis clients that work in a clone of the repository then mean this workspace."""
    try:
        async with desk.acting() as connection:
            if not await queries.connect_repository(connection, name, body.repository):
                raise _repository_taken()
            await desk.audit.tell(
                connection,
                asking,
                "repository-connected",
                name,
                {"repository": body.repository or "none"},
            )
            seen = await queries.workspaces_seen(connection, asking.identity)
    except IntegrityError as error:  # another workspace was connected at the same moment
        raise _repository_taken() from error
    return next(one for one in seen if one.name == name)


@router.delete("/{name}", status_code=204, summary="Remove a workspace")
async def remove(name: str, asking: OwningNamed, desk: DeskNow) -> None:
    """With its members, tokens and secrets; its events stay, and nobody gets its name again."""
    async with desk.reading() as connection:
        is_open = await run_queries.has_open_runs(connection, name)
    if is_open:
        raise conflict("runs of the workspace have not ended; stop them first")
    async with desk.acting() as connection:
        await queries.remove_workspace(connection, name, datetime.now(UTC))
        await desk.audit.tell(connection, asking, "workspace-removed", name)
    desk.directory.forget()


@router.get("/{name}/members", summary="List the members of a workspace")
async def list_members(name: str, _: ReadingNamed, desk: DeskNow) -> Page[MemberEntry]:
    """By name, with the role of each."""
    async with desk.acting() as connection:
        found = await queries.members_of(connection, name)
    return page(found, len(found), 0)


@router.put("/{name}/members/{user}", summary="Give a user a role")
async def set_member(
    name: str, user: str, body: SetMember, asking: AdministeringNamed, desk: DeskNow
) -> MemberEntry:
    """Viewer, member, admin or owner. Only an owner makes owners, and unmakes them."""
    async with desk.acting() as connection:
        if await queries.find_user(connection, user) is None:
            raise not_found(f"there is no user {user}; an operator creates users")
        roles = await queries.roles_held(connection, name)
        _check_owners(roles, user, body.role, asking)
        await queries.set_member(connection, name, user, body.role, datetime.now(UTC))
        await desk.audit.tell(connection, asking, "member-set", user, {"role": body.role.value})
        found = await queries.members_of(connection, name)
    desk.directory.forget()
    return next(one for one in found if one.user == user)


@router.delete("/{name}/members/{user}", status_code=204, summary="Take a member out")
async def drop_member(name: str, user: str, asking: ReadingNamed, desk: DeskNow) -> None:
    """An admin takes out whom it likes, anybody itself, though not by a token that is cut to scopes
    without `admin`; the member's personal secrets here are deleted."""
    async with desk.acting() as connection:
        roles = await queries.roles_held(connection, name)
        if user not in roles:
            raise not_found(f"{user} is no member of {name}")
        if user != asking.user or asking.identity.scopes is not None:
            require(asking, Permission.ADMIN)
        _check_owners(roles, user, None, asking)
        await queries.drop_member(connection, name, user)
        await desk.audit.tell(connection, asking, "member-removed", user)
    desk.directory.forget()


def _repository_taken() -> ProblemError:
    return conflict("the repository belongs to another workspace already; ask an operator")


def _check_owners(roles: dict[str, Role], user: str, becomes: Role | None, asking: Caller) -> None:
    was_owner = roles.get(user) is Role.OWNER
    if becomes is Role.OWNER or (was_owner and user != asking.user):
        require(asking, Permission.OWN)
    owners = [name for name, role in roles.items() if role is Role.OWNER]
    if was_owner and becomes is not Role.OWNER and owners == [user]:
        raise conflict("a workspace needs an owner; make somebody else one first")
