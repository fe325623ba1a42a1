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
from gateway.access import Caller
from gateway.problems import ProblemError


@dataclass(frozen=True)
class Admitted:
    """The caller, if there is one for the workspace asked for; or one of our own runners."""

    caller: Caller | None = None
    is_runner: bool = False


_NOBODY = Admitted()


async def admitted(scope: Scope) -> Admitted:
    """Who sends a request; asked once for each."""
    state = scope["state"]
    known: Admitted | None = state.get("admitted")
    if known is None:
        known = state["admitted"] = await _admitted(Request(scope))
    return known


async def _admitted(request: Request) -> Admitted:
    credentials = _bearer(request.headers.get("Authorization", ""))
    workspace = request.headers.get("X-Assay-Workspace", "default")
    try:
        return Admitted(caller=await access.caller(request, credentials, workspace))
    except ProblemError:
        pass  # the routes refuse it with the reason, unless it is a runner's
    try:
        await access.runner(request, credentials)
    except ProblemError:
        return _NOBODY
    return Admitted(is_runner=True)


def _bearer(header: str) -> HTTPAuthorizationCredentials | None:
    scheme, _, token = header.partition(" ")
    if scheme.lower() != "bearer" or not token:
        return None
    return HTTPAuthorizationCredentials(scheme=scheme, credentials=token.strip())
