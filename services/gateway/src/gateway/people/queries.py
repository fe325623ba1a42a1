"""The rows of users, workspaces, members, tokens and sessions."""

from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import ColumnElement, RowMapping, delete, func, or_, select, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection

from assay_contracts.http import MemberEntry, TokenEntry, UserEntry, WorkspaceEntry
from assay_contracts.identity import Role
from gateway.people.identity import Identity
from gateway.tables import (
    device_logins,
    invitations,
    members,
    secrets,
    sessions,
    tokens,
    users,
    workspaces,
)


async def workspaces_seen(connection: AsyncConnection, identity: Identity) -> list[WorkspaceEntry]:
    """The workspaces that somebody can name, and what it is in each."""
    found = await connection.execute(
        select(workspaces)
        .where(workspaces.c.name.in_(identity.visible))
        .order_by(workspaces.c.name)
    )
    return [_workspace(row, identity.roles.get(row["name"])) for row in found.mappings()]


def _workspace(row: RowMapping, role: Role | None) -> WorkspaceEntry:
    return WorkspaceEntry(
        name=row["name"],
        repository=row["repository"],
        role=role,
        created_at=row["created_at"],
        created_by=row["created_by"],
    )


async def workspace_of_repository(connection: AsyncConnection, repository: str) -> str | None:
    """The workspace that is connected to a repository (owner/name, in any case)."""
    return await connection.scalar(
        select(workspaces.c.name).where(
            workspaces.c.repository == repository.lower(),
            workspaces.c.removed_at.is_(None),
        )
    )


async def add_workspace(
    connection: AsyncConnection, name: str, repository: str | None, by: str, at: datetime
) -> bool:
    """Add a workspace; False where its name or its repository is taken."""
    if repository is not None and await workspace_of_repository(connection, repository) is not None:
        return False
    added = await connection.scalar(
        insert(workspaces)
        .values(name=name, repository=repository, created_by=by, created_at=at)
        .on_conflict_do_nothing()
        .returning(workspaces.c.name)
    )
    return added is not None


async def connect_repository(
    connection: AsyncConnection, workspace: str, repository: str | None
) -> bool:
    """Connect a workspace to a repository; False where another one has it."""
    if repository is not None:
        other = await workspace_of_repository(connection, repository)
        if other not in {None, workspace}:
            return False
    await connection.execute(
        update(workspaces).where(workspaces.c.name == workspace).values(repository=repository)
    )
    return True


async def remove_workspace(connection: AsyncConnection, name: str, at: datetime) -> None:
    """Remove a workspace with its members, its tokens and its secrets; its name stays taken."""
    await connection.execute(
        update(workspaces).where(workspaces.c.name == name).values(removed_at=at, repository=None)
    )
    await connection.execute(delete(members).where(members.c.workspace == name))
    await connection.execute(delete(secrets).where(secrets.c.workspace == name))
    await connection.execute(
        update(tokens)
        .where(tokens.c.workspace == name, tokens.c.revoked_at.is_(None))
        .values(revoked_at=at)
    )


async def members_of(connection: AsyncConnection, workspace: str) -> list[MemberEntry]:
    """The members of a workspace by name."""
    found = await connection.execute(
        select(members, users.c.email, users.c.display_name)
        .join(users, users.c.name == members.c.user)
        .where(members.c.workspace == workspace)
        .order_by(members.c.user)
    )
    return [
        MemberEntry(**{name: row[name] for name in MemberEntry.model_fields})
        for row in found.mappings()
    ]


async def set_member(
    connection: AsyncConnection, workspace: str, user: str, role: Role, at: datetime
) -> None:
    """Give a user a role in a workspace."""
    await connection.execute(
        insert(members)
        .values(workspace=workspace, user=user, role=role.value, since=at)
        .on_conflict_do_update(index_elements=["workspace", "user"], set_={"role": role.value})
    )


async def drop_member(connection: AsyncConnection, workspace: str, user: str) -> None:
    """Take a user out of a workspace, with its personal secrets and its tokens for it alone."""
    await connection.execute(
        delete(members).where(members.c.workspace == workspace, members.c.user == user)
    )
    await connection.execute(
        delete(secrets).where(
            secrets.c.workspace == workspace, secrets.c.scope == "user", secrets.c.owner == user
        )
    )
    await connection.execute(
        update(tokens)
        .where(
            tokens.c.workspace == workspace, tokens.c.user == user, tokens.c.revoked_at.is_(None)
        )
        .values(revoked_at=func.now())
    )


async def roles_held(connection: AsyncConnection, workspace: str) -> dict[str, Role]:
    """What each member of a workspace is; nobody can change it until the transaction ends."""
    await connection.execute(
        select(workspaces.c.name).where(workspaces.c.name == workspace).with_for_update()
    )
    rows = await connection.execute(
        select(members.c.user, members.c.role).where(members.c.workspace == workspace)
    )
    return {row.user: Role(row.role) for row in rows}


async def add_user(connection: AsyncConnection, values: dict[str, Any]) -> bool:
    """Add a user; False where its name or its e-mail address is taken."""
    added = await connection.scalar(
        insert(users).values(values).on_conflict_do_nothing().returning(users.c.name)
    )
    return added is not None


async def find_user(connection: AsyncConnection, name: str) -> RowMapping | None:
    """A user by name."""
    found = await connection.execute(select(users).where(users.c.name == name))
    return found.mappings().first()


async def find_sign_in(connection: AsyncConnection, who: str) -> RowMapping | None:
    """A user that may sign in, by name or e-mail address."""
    known = or_(users.c.name == who, users.c.email == who.lower())
    found = await connection.execute(select(users).where(known, users.c.disabled_at.is_(None)))
    return found.mappings().first()


async def find_email(connection: AsyncConnection, email: str) -> RowMapping | None:
    """A user by e-mail address (in small letters)."""
    found = await connection.execute(select(users).where(users.c.email == email))
    return found.mappings().first()


async def find_subject(connection: AsyncConnection, issuer: str, subject: str) -> RowMapping | None:
    """A user by what an OpenID provider calls it."""
    found = await connection.execute(
        select(users).where(users.c.issuer == issuer, users.c.subject == subject)
    )
    return found.mappings().first()


async def list_users(
    connection: AsyncConnection, limit: int, offset: int
) -> tuple[list[UserEntry], int]:
    """Every user by name, and how many there are."""
    total = await connection.scalar(select(func.count()).select_from(users))
    found = await connection.execute(
        select(users).order_by(users.c.name).limit(limit).offset(offset)
    )
    return [user_entry(row) for row in found.mappings()], int(total or 0)


def user_entry(row: RowMapping) -> UserEntry:
    """A user as it is shown."""
    own = {name: row[name] for name in UserEntry.model_fields if name != "has_password"}
    return UserEntry(**own, has_password=row["password"] is not None)


async def change_user(connection: AsyncConnection, name: str, values: dict[str, Any]) -> None:
    """Change what is known of a user."""
    await connection.execute(update(users).where(users.c.name == name).values(values))


async def add_token(connection: AsyncConnection, values: dict[str, Any]) -> None:
    """Keep a token's hash and what it is good for."""
    await connection.execute(insert(tokens).values(values))


async def list_tokens(
    connection: AsyncConnection, clause: ColumnElement[bool], limit: int, offset: int
) -> tuple[list[TokenEntry], int]:
    """Tokens that are not revoked, the newest first, and how many there are."""
    wanted = (clause, tokens.c.revoked_at.is_(None))
    total = await connection.scalar(select(func.count()).select_from(tokens).where(*wanted))
    found = await connection.execute(
        select(tokens)
        .where(*wanted)
        .order_by(tokens.c.created_at.desc(), tokens.c.id)
        .limit(limit)
        .offset(offset)
    )
    return [token_entry(row) for row in found.mappings()], int(total or 0)


async def find_token(connection: AsyncConnection, token: UUID) -> RowMapping | None:
    """A token's record that is not revoked."""
    found = await connection.execute(
        select(tokens).where(tokens.c.id == token, tokens.c.revoked_at.is_(None))
    )
    return found.mappings().first()


def token_entry(row: RowMapping) -> TokenEntry:
    """A token as it is shown."""
    return TokenEntry(**{name: row[name] for name in TokenEntry.model_fields})


async def revoke_token(connection: AsyncConnection, token: UUID, at: datetime) -> None:
    """Let a token open nothing any more."""
    await connection.execute(update(tokens).where(tokens.c.id == token).values(revoked_at=at))


async def add_session(
    connection: AsyncConnection, key: bytes, user: str, at: datetime, until: datetime
) -> None:
    """Keep a session's hash; those that have expired go."""
    await connection.execute(delete(sessions).where(sessions.c.expires_at <= at))
    await connection.execute(
        insert(sessions).values(hash=key, user=user, created_at=at, expires_at=until)
    )


async def end_sessions(
    connection: AsyncConnection, user: str, *, keep: bytes | None = None
) -> None:
    """End a user's sessions, but for one."""
    clauses = [sessions.c.user == user] + ([] if keep is None else [sessions.c.hash != keep])
    await connection.execute(delete(sessions).where(*clauses))


async def end_session(connection: AsyncConnection, key: bytes) -> None:
    """End one session."""
    await connection.execute(delete(sessions).where(sessions.c.hash == key))


async def invite(connection: AsyncConnection, user: str, key: bytes, until: datetime) -> None:
    """Keep an invitation's hash, in place of earlier ones of the user."""
    await connection.execute(delete(invitations).where(invitations.c.user == user))
    await connection.execute(insert(invitations).values(hash=key, user=user, expires_at=until))


async def take_invitation(connection: AsyncConnection, key: bytes, at: datetime) -> str | None:
    """Whom an invitation was for; it is good once."""
    row = (
        await connection.execute(
            delete(invitations).where(invitations.c.hash == key).returning(invitations)
        )
    ).first()
    return None if row is None or row.expires_at <= at else str(row.user)


async def begin_device(connection: AsyncConnection, values: dict[str, Any], at: datetime) -> bool:
    """Keep a device that asks to be signed in; False where its code is taken."""
    await connection.execute(delete(device_logins).where(device_logins.c.expires_at <= at))
    begun = await connection.scalar(
        insert(device_logins)
        .values(values)
        .on_conflict_do_nothing()
        .returning(device_logins.c.user_code)
    )
    return begun is not None


async def polled_device(connection: AsyncConnection, key: bytes, at: datetime) -> RowMapping | None:
    """A device that asks how it stands, as it was when it asked before; it is locked."""
    found = await connection.execute(
        select(device_logins).where(device_logins.c.hash == key).with_for_update()
    )
    row = found.mappings().first()
    if row is not None:
        await connection.execute(
            update(device_logins).where(device_logins.c.hash == key).values(polled_at=at)
        )
    return row


async def drop_device(connection: AsyncConnection, key: bytes) -> None:
    """A device was let in or turned away, and has been told."""
    await connection.execute(delete(device_logins).where(device_logins.c.hash == key))


async def waiting_device(
    connection: AsyncConnection, user_code: str, at: datetime
) -> RowMapping | None:
    """The device that shows a code and on which nobody has decided."""
    found = await connection.execute(
        select(device_logins)
        .where(
            device_logins.c.user_code == user_code,
            device_logins.c.expires_at > at,
            device_logins.c.user.is_(None),
            ~device_logins.c.denied,
        )
        .with_for_update()
    )
    return found.mappings().first()


async def decide_device(connection: AsyncConnection, key: bytes, *, user: str | None) -> None:
    """Let a device in as `user`, or turn it away."""
    await connection.execute(
        update(device_logins)
        .where(device_logins.c.hash == key)
        .values(user=user, denied=user is None)
    )


def tokens_of(user: str) -> ColumnElement[bool]:
    """The tokens of one user."""
    return tokens.c.user == user


def tokens_in(workspace: str) -> ColumnElement[bool]:
    """The tokens that are good for one workspace alone."""
    return tokens.c.workspace == workspace
