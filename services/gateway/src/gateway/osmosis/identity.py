"""Who a token belongs to, and which workspaces its owner has."""

from fastapi import APIRouter

from gateway.access import Caller
from gateway.osmosis import wire
from gateway.osmosis.scope import Somebody, SomebodySomewhere

router = APIRouter()


@router.get("/verify")
async def verify(asking: SomebodySomewhere) -> wire.Verified:
    """`osmosis auth whoami`, and `auth login --token`."""
    caller, is_somewhere = asking
    return wire.Verified(
        user=_user(caller),
        expires_at=None,
        token_id=None,
        workspace=wire.VerifiedWorkspace(id=caller.workspace, name=caller.workspace, role=None)
        if is_somewhere
        else None,
    )


@router.get("/workspaces")
async def workspaces(asking: Somebody) -> wire.Workspaces:
    """Every workspace of the caller's."""
    return wire.Workspaces(
        workspaces=[wire.Workspace(id=asking.workspace, name=asking.workspace, connected_repo=None)]
    )


def _user(caller: Caller) -> wire.User:
    return wire.User(id=caller.user, email=f"{caller.user}@localhost", name=caller.user)
