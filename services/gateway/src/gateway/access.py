"""Who asks, for which workspace, and under which request id.

One administrator's token, and one for runners, each in a file of the installation; only their
hashes are held in memory.
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
from fastapi.security import HTTPBearer
from fastapi.security.http import HTTPAuthorizationCredentials

from assay_contracts.identifiers import MANAGED_WORKSPACE, new_id
from assay_contracts.identity import Permission
from assay_contracts.problems import ProblemCode
from assay_contracts.run_config import ConfigIssue
from gateway.problems import ProblemError, invalid

_SLUG = re.compile(r"[a-z0-9][a-z0-9-]{0,62}")
_bearer = HTTPBearer(auto_error=False, description="The token in the data folder's admin-token.")


@dataclass(frozen=True)
class Tokens:
    """The hashes of the tokens that open the door."""

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
class Caller:
    """A person or program that may ask, and what it may do in the workspace that it asks for."""

    user: str
    workspace: str
    permissions: frozenset[Permission]
    request_id: UUID


Bearer = Annotated[HTTPAuthorizationCredentials | None, Depends(_bearer)]


def _matches(credentials: HTTPAuthorizationCredentials | None, wanted: bytes | None) -> bool:
    if credentials is None or wanted is None:
        return False
    given = hashlib.sha256(credentials.credentials.encode()).digest()
    return hmac.compare_digest(given, wanted)


def _refused() -> ProblemError:
    return ProblemError(
        ProblemCode.AUTH_REQUIRED,
        401,
        "a valid bearer token is needed: set ASSAY_TOKEN, or run the command on the server's "
        "machine, where it reads the data folder's admin-token by itself",
        headers={"WWW-Authenticate": "Bearer"},
    )


async def caller(
    request: Request,
    credentials: Bearer,
    x_assay_workspace: Annotated[str, Header()] = "default",
) -> Caller:
    """The administrator, in the workspace that the request names."""
    tokens: Tokens = request.app.state.tokens
    if not _matches(credentials, tokens.admin):
        raise _refused()
    if not _SLUG.fullmatch(x_assay_workspace) or x_assay_workspace == MANAGED_WORKSPACE:
        message = "must be a workspace: small letters, digits and dashes"
        raise invalid([ConfigIssue(key="X-Assay-Workspace", message=message)])
    return Caller("admin", x_assay_workspace, frozenset(Permission), request.state.request_id)


async def runner(request: Request, credentials: Bearer) -> None:
    """A sandbox-runner of this installation."""
    tokens: Tokens = request.app.state.tokens
    if not _matches(credentials, tokens.runner):
        raise _refused()


def request_id_of(text: str | None) -> UUID:
    """The id that a request carries, or a new one where it carries none that is a UUID."""
    try:
        return UUID(text) if text else new_id()
    except ValueError:
        return new_id()


def needs(permission: Permission) -> Callable[..., Awaitable[Caller]]:
    """The dependency of a route that asks for a permission; every route has one."""

    async def allowed(asking: Annotated[Caller, Depends(caller)]) -> Caller:
        if permission not in asking.permissions:
            raise ProblemError(
                ProblemCode.FORBIDDEN,
                403,
                f"this needs the permission `{permission.value}`, which you or your token lack in "
                f"the workspace {asking.workspace}",
            )
        return asking

    return allowed


Reading = Annotated[Caller, Depends(needs(Permission.READ))]
Running = Annotated[Caller, Depends(needs(Permission.RUN))]
Benchmarking = Annotated[Caller, Depends(needs(Permission.BENCHMARKS))]
Administering = Annotated[Caller, Depends(needs(Permission.ADMIN))]
Owning = Annotated[Caller, Depends(needs(Permission.OWN))]
Operating = Annotated[Caller, Depends(needs(Permission.OPERATE))]
