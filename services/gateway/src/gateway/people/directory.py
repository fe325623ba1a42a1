"""Finds who a credential belongs to; remembered for a few seconds, since every request asks.

A change made in this process is seen at once; one made by another gateway within seconds.
"""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from cachetools import TTLCache
from sqlalchemy import RowMapping, or_, select, update
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from assay_contracts.identity import Permission, Role
from assay_contracts.problems import ProblemCode
from gateway.people.credentials import hashed
from gateway.people.identity import Identity
from gateway.problems import ProblemError
from gateway.tables import members, sessions, tokens, users, workspaces

_REMEMBERED_SECONDS = 5.0
_MOST_REMEMBERED = 10_000
_USE_IS_TOLD = timedelta(minutes=1)


def refused(
    detail: str = "a valid bearer token is needed: sign in with `assay login`, set ASSAY_TOKEN, or "
    "run the command on the server's machine, where it reads the data folder's admin-token",
    code: ProblemCode = ProblemCode.AUTH_REQUIRED,
) -> ProblemError:
    """The answer to who did not prove who it is."""
    return ProblemError(code, 401, detail, headers={"WWW-Authenticate": "Bearer"})


class Directory:
    """Who credentials belong to."""

    def __init__(
        self, engine: AsyncEngine, *, now: Callable[[], datetime] = lambda: datetime.now(UTC)
    ) -> None:
        self._engine = engine
        self._now = now
        self._remembered: TTLCache[tuple[str, bytes], Identity] = TTLCache(
            _MOST_REMEMBERED, _REMEMBERED_SECONDS
        )

    def forget(self) -> None:
        """Ask the database again: something has changed."""
        self._remembered.clear()

    async def by_token(self, token: str) -> Identity:
        """Who an API token stands for.

        Raises:
            ProblemError: nobody, or no longer.
        """
        return await self._found("token", hashed(token), self._of_token)

    async def by_session(self, cookie: str) -> Identity:
        """Whose session a cookie keeps.

        Raises:
            ProblemError: nobody's, or no longer.
        """
        return await self._found("session", hashed(cookie), self._of_session)

    async def by_name(self, user: str) -> Identity:
        """A user that was proven in another way, such as by the installation's own token."""
        return await self._found("user", user.encode(), self._of_name)

    async def _found(self, kind: str, key: bytes, find: Any) -> Identity:
        known = self._remembered.get((kind, key))
        if known is None:
            async with self._engine.begin() as connection:
                known = await find(connection, key)
            self._remembered[kind, key] = known
        if known.expires_at is not None and known.expires_at <= self._now():
            self._remembered.pop((kind, key), None)
            raise _expired(kind)
        return known

    async def _of_token(self, connection: AsyncConnection, key: bytes) -> Identity:
        row = (
            (
                await connection.execute(
                    select(tokens, users.c.operator, users.c.disabled_at)
                    .join(users, users.c.name == tokens.c.user)
                    .where(tokens.c.hash == key)
                )
            )
            .mappings()
            .first()
        )
        if row is None:
            raise refused()
        if row["revoked_at"] is not None:
            raise refused(
                "the token was revoked; create another with `assay token create`, or sign in with "
                "`assay login`",
                ProblemCode.TOKEN_REVOKED,
            )
        _require_enabled(row)
        now = self._now()
        if row["expires_at"] is not None and row["expires_at"] <= now:
            raise _expired("token")
        await connection.execute(
            update(tokens)
            .where(
                tokens.c.id == row["id"],
                or_(tokens.c.last_used_at.is_(None), tokens.c.last_used_at < now - _USE_IS_TOLD),
            )
            .values(last_used_at=now)
        )
        return Identity(
            user=row["user"],
            operator=row["operator"],
            roles=await _roles(connection, row["user"], row["operator"]),
            workspace=row["workspace"],
            scopes=None
            if row["scopes"] is None
            else frozenset(Permission(one) for one in row["scopes"]),
            token_id=row["id"],
            expires_at=row["expires_at"],
        )

    async def _of_session(self, connection: AsyncConnection, key: bytes) -> Identity:
        row = (
            (
                await connection.execute(
                    select(sessions, users.c.operator, users.c.disabled_at)
                    .join(users, users.c.name == sessions.c.user)
                    .where(sessions.c.hash == key)
                )
            )
            .mappings()
            .first()
        )
        if row is None:
            raise refused("your session has ended; sign in again")
        _require_enabled(row)
        return Identity(
            user=row["user"],
            operator=row["operator"],
            roles=await _roles(connection, row["user"], row["operator"]),
            expires_at=row["expires_at"],
            session=key,
        )

    async def _of_name(self, connection: AsyncConnection, key: bytes) -> Identity:
        name = key.decode()
        operator = await connection.scalar(select(users.c.operator).where(users.c.name == name))
        if operator is None:
            raise refused()
        return Identity(name, operator, await _roles(connection, name, operator))


def _expired(kind: str) -> ProblemError:
    return refused(
        f"the {kind} has expired; sign in again with `assay login`, or create another token",
        ProblemCode.TOKEN_EXPIRED,
    )


def _require_enabled(row: RowMapping) -> None:
    if row["disabled_at"] is not None:
        raise refused("the account is disabled; ask an operator", ProblemCode.TOKEN_REVOKED)


async def _roles(connection: AsyncConnection, user: str, operator: bool) -> dict[str, Role]:
    if operator:
        found = await connection.scalars(
            select(workspaces.c.name).where(workspaces.c.removed_at.is_(None))
        )
        return dict.fromkeys(found, Role.OWNER)
    rows = await connection.execute(
        select(members.c.workspace, members.c.role)
        .join(workspaces, workspaces.c.name == members.c.workspace)
        .where(members.c.user == user, workspaces.c.removed_at.is_(None))
    )
    return {row.workspace: Role(row.role) for row in rows}
