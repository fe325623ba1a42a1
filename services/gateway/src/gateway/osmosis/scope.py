"""Who asks, and for which workspace: a bearer token, and exactly one of the client's scope headers.

`X-Osmosis-Workspace` names a workspace, `X-Osmosis-Git` a repository (`owner/name`) that one is
connected to. Which of the two it was is all that is particular here: what the caller may do there
is `gateway.access`'s to say.
"""

import re
from collections.abc import Awaitable, Callable
from typing import Annotated

from fastapi import Depends, Header, Request
from pydantic import TypeAdapter, ValidationError

from assay_contracts.identifiers import MANAGED_WORKSPACE, WorkspaceSlug
from assay_contracts.identity import Permission
from assay_contracts.problems import ProblemCode
from gateway.access import Bearer, Caller, caller
from gateway.osmosis.errors import OsmosisError, WireError
from gateway.problems import ProblemError

_REPOSITORY = re.compile(r"[A-Za-z0-9_.-]+/[A-Za-z0-9_.-]+")
_SLUG = TypeAdapter(WorkspaceSlug)

WorkspaceHeader = Annotated[str | None, Header(alias="X-Osmosis-Workspace")]
GitHeader = Annotated[str | None, Header(alias="X-Osmosis-Git")]


def _scope_error(status: int, code: str, message: str) -> OsmosisError:
    return OsmosisError(status, WireError(error=message, code=code))


def _conflict() -> OsmosisError:
    return _scope_error(
        400,
        "WORKSPACE_SCOPE_HEADER_CONFLICT",
        "both a workspace and a repository are named; name one of them",
    )


def no_access(name: str) -> OsmosisError:
    """There is no such workspace, or none for this caller: which of the two is not told."""
    return _scope_error(
        404,
        "WORKSPACE_SCOPE_HEADER_ACCESS_DENIED",
        f"there is no workspace {name} that you are a member of",
    )


def not_connected(repository: str) -> OsmosisError:
    """No workspace is connected to the repository, or none for this caller."""
    return _scope_error(
        404,
        "GIT_REPOSITORY_NOT_CONNECTED",
        f"no workspace of yours is connected to the repository {repository}; "
        "name one with --workspace",
    )


async def scoped(
    request: Request,
    credentials: Bearer,
    workspace: WorkspaceHeader = None,
    repository: GitHeader = None,
) -> Caller:
    """The caller in the workspace that the request's one scope header names.

    Raises:
        OsmosisError: there is none or there are both, or what it names is not there.
        ProblemError: the token is no good.
    """
    if workspace is not None and repository is not None:
        raise _conflict()
    if workspace is not None:
        return await caller(request, credentials, _slug(workspace))
    if repository is None:
        raise _scope_error(
            400, "GIT_SCOPE_HEADER_REQUIRED", "no workspace is named; pass --workspace NAME"
        )
    await caller(request, credentials)
    if not _REPOSITORY.fullmatch(repository):
        raise _scope_error(
            400, "GIT_SCOPE_HEADER_INVALID", f"{repository} is no repository: owner/name"
        )
    raise not_connected(repository)


def _slug(name: str) -> str:
    try:
        slug: str = _SLUG.validate_python(name)
    except ValidationError as error:
        raise no_access(name) from error
    if slug == MANAGED_WORKSPACE:
        raise no_access(name)
    return slug


async def anywhere(request: Request, credentials: Bearer) -> Caller:
    """The caller, where the request is about no workspace in particular."""
    return await caller(request, credentials)


async def perhaps_scoped(
    request: Request,
    credentials: Bearer,
    workspace: WorkspaceHeader = None,
    repository: GitHeader = None,
) -> tuple[Caller, bool]:
    """The caller, and whether the request names a workspace."""
    if workspace is None and repository is None:
        return await anywhere(request, credentials), False
    return await scoped(request, credentials, workspace, repository), True


def needs(permission: Permission) -> Callable[..., Awaitable[Caller]]:
    """The dependency of a route of this interface that asks for a permission."""

    async def allowed(asking: Annotated[Caller, Depends(scoped)]) -> Caller:
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
Somebody = Annotated[Caller, Depends(anywhere)]
SomebodySomewhere = Annotated[tuple[Caller, bool], Depends(perhaps_scoped)]
