"""In which workspace somebody asks: exactly one of the client's scope headers names it.

`X-Osmosis-Workspace` names a workspace, `X-Osmosis-Git` a repository (`owner/name`) that one is
connected to. Who asks, and what it may do there, is `gateway.access`'s to say.
"""

import re
from collections.abc import Awaitable, Callable
from typing import Annotated

from fastapi import Depends, Header

from assay_contracts.identity import Permission
from gateway.access import Caller, Somebody, SomebodyNow, in_workspace, require
from gateway.desk import Desk, DeskNow
from gateway.osmosis.errors import OsmosisError, WireError
from gateway.people.queries import workspace_of_repository

_REPOSITORY = re.compile(r"[A-Za-z0-9_.-]+/[A-Za-z0-9_.-]+")

WorkspaceHeader = Annotated[str | None, Header(alias="X-Osmosis-Workspace")]
GitHeader = Annotated[str | None, Header(alias="X-Osmosis-Git")]


async def scoped(
    asking: SomebodyNow,
    desk: DeskNow,
    workspace: WorkspaceHeader = None,
    repository: GitHeader = None,
) -> Caller:
    """Somebody in the workspace that the request's one scope header names.

    Raises:
        OsmosisError: there is none or there are both, or what it names is not there for who asks.
    """
    if workspace is not None and repository is not None:
        raise _refusal(
            400,
            "WORKSPACE_SCOPE_HEADER_CONFLICT",
            "both a workspace and a repository are named; name one of them",
        )
    if workspace is not None:
        return _in_workspace(asking, workspace)
    if repository is not None:
        return await _in_repository(asking, repository, desk)
    raise _refusal(400, "GIT_SCOPE_HEADER_REQUIRED", "no workspace is named; pass --workspace NAME")


def _in_workspace(asking: Somebody, workspace: str) -> Caller:
    if asking.identity.permissions_in(workspace) is None:
        raise _refusal(
            404,
            "WORKSPACE_SCOPE_HEADER_ACCESS_DENIED",
            f"there is no workspace {workspace} that you can see",
        )
    return in_workspace(asking, workspace)


async def _in_repository(asking: Somebody, repository: str, desk: Desk) -> Caller:
    """A workspace that cannot be seen is told of as if there were none."""
    if not _REPOSITORY.fullmatch(repository):
        raise _refusal(
            400, "GIT_SCOPE_HEADER_INVALID", f"{repository} is no repository: owner/name"
        )
    async with desk.acting() as connection:
        workspace = await workspace_of_repository(connection, repository)
    if workspace is None or asking.identity.permissions_in(workspace) is None:
        raise _refusal(
            404,
            "GIT_REPOSITORY_NOT_CONNECTED",
            f"no workspace that you can see is connected to the repository {repository}; "
            "name one with --workspace",
        )
    return in_workspace(asking, workspace)


def _refusal(status: int, code: str, message: str) -> OsmosisError:
    return OsmosisError(status, WireError(error=message, code=code))


async def perhaps_scoped(
    asking: SomebodyNow,
    desk: DeskNow,
    workspace: WorkspaceHeader = None,
    repository: GitHeader = None,
) -> Somebody | Caller:
    """Somebody, in a workspace where the request names one."""
    if workspace is None and repository is None:
        return asking
    return await scoped(asking, desk, workspace, repository)


def needs(permission: Permission) -> Callable[..., Awaitable[Caller]]:
    """The dependency of a route of this interface that asks for a permission."""

    async def allowed(asking: Annotated[Caller, Depends(scoped)]) -> Caller:
        require(asking, permission)
        return asking

    return allowed


Reading = Annotated[Caller, Depends(needs(Permission.READ))]
Running = Annotated[Caller, Depends(needs(Permission.RUN))]
PerhapsSomewhere = Annotated[Somebody, Depends(perhaps_scoped)]
