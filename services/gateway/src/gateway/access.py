"""Who asks, for which workspace, what it may do there, and under which request id.

A caller proves itself with a bearer token (an API token, or the installation's own administrator
token), or in a browser with the cookie of its session. Runners have a token of the installation's.
"""

import hashlib
import hmac
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated
from uuid import UUID

from fastapi import Depends, Header, Request
from fastapi.security import APIKeyCookie, HTTPBearer
from fastapi.security.http import HTTPAuthorizationCredentials

from assay_contracts.identifiers import new_id
from assay_contracts.identity import Permission
from assay_contracts.problems import ProblemCode
from assay_contracts.run_config import ConfigIssue
from gateway.people.directory import Directory, refused
from gateway.people.identity import Identity
from gateway.problems import ProblemError, invalid, not_found

ADMIN = "admin"
"""The operator that the installation's own token stands for."""

SESSION_COOKIE = "assay-session"
_SLUG = re.compile(r"[a-z0-9][a-z0-9-]{0,62}")
_SAFE_METHODS = {"GET", "HEAD", "OPTIONS"}
_bearer = HTTPBearer(
    auto_error=False,
    description="An API token (`assay token create`), or the data folder's admin-token.",
)
_cookie = APIKeyCookie(
    name=SESSION_COOKIE, auto_error=False, description="A browser's session (`/sign-in`)."
)


@dataclass(frozen=True)
class Tokens:
    """The hashes of the installation's own tokens."""

    admin: bytes | None
    runner: bytes | None

    @classmethod
    def read(cls, admin: Path | None, runner: Path | None) -> "Tokens":
        """From the files that hold them."""
        return cls(admin=_hash_of(admin), runner=_hash_of(runner))


def _hash_of(path: Path | None) -> bytes | None:
    if path is None:
        return None
    token = path.read_text().strip()
    return hashlib.sha256(token.encode()).digest() if token else None


@dataclass(frozen=True)
class Somebody:
    """A person or program that has proven who it is, before any workspace is named."""

    identity: Identity
    request_id: UUID

    @property
    def user(self) -> str:
        """Its name."""
        return self.identity.user


@dataclass(frozen=True)
class Caller(Somebody):
    """Somebody in a workspace, and what it may do there."""

    workspace: str
    permissions: frozenset[Permission]


Bearer = Annotated[HTTPAuthorizationCredentials | None, Depends(_bearer)]
Cookie = Annotated[str | None, Depends(_cookie)]


def _matches(credentials: HTTPAuthorizationCredentials | None, wanted: bytes | None) -> bool:
    if credentials is None or wanted is None:
        return False
    given = hashlib.sha256(credentials.credentials.encode()).digest()
    return hmac.compare_digest(given, wanted)


def is_admin_token(text: str, tokens: Tokens) -> bool:
    """Whether it is the installation's own token."""
    given = hashlib.sha256(text.encode()).digest()
    return tokens.admin is not None and hmac.compare_digest(given, tokens.admin)


def directory_of(request: Request) -> Directory:
    """The directory of the application that serves the request."""
    directory: Directory = request.app.state.desk.directory
    return directory


async def somebody(request: Request, credentials: Bearer, cookie: Cookie) -> Somebody:
    """Who asks.

    Raises:
        ProblemError: nobody that is known, or a browser on behalf of another site.
    """
    tokens: Tokens = request.app.state.tokens
    directory = directory_of(request)
    if _matches(credentials, tokens.admin):
        identity = await directory.by_name(ADMIN)
    elif credentials is not None:
        identity = await directory.by_token(credentials.credentials)
    elif cookie is not None:
        require_own_pages(request)
        identity = await directory.by_session(cookie)
    else:
        raise refused()
    return Somebody(identity, request.state.request_id)


def require_own_pages(request: Request) -> None:
    """Refuse a change that another site's page sent along with our cookie.

    Raises:
        ProblemError: the request does not come from our own pages.
    """
    if request.method in _SAFE_METHODS:
        return
    site, origin = request.headers.get("sec-fetch-site"), request.headers.get("origin")
    if site in {"same-origin", "none"}:
        return
    if site is None and origin is not None:
        host = request.headers.get("host")
        if host is not None and origin.partition("://")[2] == host:
            return
    raise ProblemError(
        ProblemCode.FORBIDDEN,
        403,
        "a session can change things from Assay's own pages alone; programs take a token, which "
        "`assay token create` makes",
    )


def in_workspace(asking: Somebody, named: str | None) -> Caller:
    """Somebody in the workspace that a request means.

    Raises:
        ProblemError: it names none, or one that cannot be seen.
    """
    workspace = asking.identity.meant_workspace(named)
    if workspace is None:
        message = (
            "name the workspace, such as with --workspace: you are a member of several, or of "
            "none; `assay workspace list` shows them"
        )
        raise invalid([ConfigIssue(key="X-Assay-Workspace", message=message)])
    permissions = asking.identity.permissions_in(workspace)
    if permissions is None:
        raise not_found(
            f"there is no workspace {workspace} that you can see; "
            "`assay workspace list` shows those that you can"
        )
    return Caller(asking.identity, asking.request_id, workspace, permissions)


SomebodyNow = Annotated[Somebody, Depends(somebody)]


async def caller(
    asking: SomebodyNow, x_assay_workspace: Annotated[str | None, Header()] = None
) -> Caller:
    """Who asks, in the workspace that the request names."""
    if x_assay_workspace is not None and not _SLUG.fullmatch(x_assay_workspace):
        message = "must be a workspace: small letters, digits and dashes"
        raise invalid([ConfigIssue(key="X-Assay-Workspace", message=message)])
    return in_workspace(asking, x_assay_workspace)


async def runner(request: Request, credentials: Bearer) -> None:
    """A sandbox-runner of this installation."""
    tokens: Tokens = request.app.state.tokens
    if not _matches(credentials, tokens.runner):
        raise refused()


def request_id_of(text: str | None) -> UUID:
    """The id that a request carries, or a new one where it carries none that is a UUID."""
    try:
        return UUID(text) if text else new_id()
    except ValueError:
        return new_id()


def require(asking: Caller, permission: Permission) -> None:
    """Refuse who lacks a permission.

    Raises:
        ProblemError: it is lacking.
    """
    if permission not in asking.permissions:
        raise ProblemError(
            ProblemCode.FORBIDDEN,
            403,
            f"this needs the permission `{permission.value}`, which you or your token lack in the "
            f"workspace {asking.workspace}; `assay whoami` shows what you may do",
        )


def needs(permission: Permission) -> Callable[..., Awaitable[Caller]]:
    """The dependency of a route that asks for a permission; every route has one.

    Its attribute `permission` tells which, for whoever checks all routes.
    """

    async def allowed(asking: Annotated[Caller, Depends(caller)]) -> Caller:
        require(asking, permission)
        return asking

    allowed.__dict__["permission"] = permission
    return allowed


def needs_in_named(permission: Permission) -> Callable[..., Awaitable[Caller]]:
    """Like `needs`, for routes whose path names the workspace as `name`."""

    async def allowed(name: str, asking: SomebodyNow) -> Caller:
        found = in_workspace(asking, name)
        require(found, permission)
        return found

    allowed.__dict__["permission"] = permission
    return allowed


async def operator(asking: SomebodyNow) -> Somebody:
    """Somebody who runs the installation."""
    if not asking.identity.operates:
        raise ProblemError(
            ProblemCode.FORBIDDEN, 403, "this is for operators of the installation alone"
        )
    return asking


Reading = Annotated[Caller, Depends(needs(Permission.READ))]
Running = Annotated[Caller, Depends(needs(Permission.RUN))]
Benchmarking = Annotated[Caller, Depends(needs(Permission.BENCHMARKS))]
Administering = Annotated[Caller, Depends(needs(Permission.ADMIN))]
Operating = Annotated[Somebody, Depends(operator)]
ReadingNamed = Annotated[Caller, Depends(needs_in_named(Permission.READ))]
AdministeringNamed = Annotated[Caller, Depends(needs_in_named(Permission.ADMIN))]
OwningNamed = Annotated[Caller, Depends(needs_in_named(Permission.OWN))]
