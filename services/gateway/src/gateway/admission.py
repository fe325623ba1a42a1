"""Who sends a request, known before any route is looked for.

Rate limits, kept answers and idempotency keys need the caller earlier than the routes do. The
routes' own dependencies decide in the end: what is refused here goes on to them as nobody's, and
they say what is wrong.
"""

from dataclasses import dataclass

from fastapi.security.http import HTTPAuthorizationCredentials
from starlette.requests import Request
from starlette.types import Scope

from gateway import access
from gateway.access import Caller, Somebody
from gateway.problems import ProblemError


@dataclass(frozen=True)
class Admitted:
    """Somebody who has proven who it is, and as a caller where it may see the workspace that it
    asks for; or one of our own runners."""

    somebody: Somebody | None = None
    caller: Caller | None = None
    is_runner: bool = False


async def admitted(scope: Scope) -> Admitted:
    """Who sends a request; asked once for each."""
    state = scope["state"]
    known: Admitted | None = state.get("admitted")
    if known is None:
        known = state["admitted"] = await _admitted(Request(scope))
    return known


async def _admitted(request: Request) -> Admitted:
    credentials = _bearer(request.headers.get("Authorization", ""))
    cookie = request.cookies.get(access.SESSION_COOKIE)
    # What is refused here is refused by the routes, with the reason, unless it is a runner's.
    try:
        somebody = await access.somebody(request, credentials, cookie)
    except ProblemError:
        return Admitted(is_runner=await _is_runner(request, credentials))
    try:
        workspace = request.headers.get("X-Assay-Workspace")
        return Admitted(somebody, await access.caller(somebody, workspace))
    except ProblemError:
        return Admitted(somebody)


async def _is_runner(request: Request, credentials: HTTPAuthorizationCredentials | None) -> bool:
    try:
        await access.runner(request, credentials)
    except ProblemError:
        return False
    return True


def _bearer(header: str) -> HTTPAuthorizationCredentials | None:
    scheme, _, token = header.partition(" ")
    if scheme.lower() != "bearer" or not token:
        return None
    return HTTPAuthorizationCredentials(scheme=scheme, credentials=token.strip())
