"""Who somebody is, and signing in and out: a token is checked, asked for by a device, revoked."""

from uuid import UUID

from fastapi import APIRouter

from assay_contracts.http import WorkspaceEntry
from gateway.access import Caller, SomebodyNow
from gateway.desk import DeskNow
from gateway.osmosis import wire
from gateway.osmosis.errors import OsmosisError, WireError
from gateway.osmosis.queries import people_called
from gateway.osmosis.scope import PerhapsSomewhere
from gateway.people import tokens
from gateway.people.addresses import PublicAddress
from gateway.people.devices import DeviceRefusedError, begin, redeem
from gateway.people.sessions import described

router = APIRouter()


@router.get("/verify")
async def verify(asking: PerhapsSomewhere, desk: DeskNow) -> wire.Verified:
    """`osmosis auth whoami`, and `auth login --token`."""
    me = await described(asking, desk)
    return wire.Verified(
        user=wire.User(id=me.user, email=me.email, name=me.display_name),
        expires_at=me.expires_at,
        token_id=me.token_id,
        workspace=_verified(asking) if isinstance(asking, Caller) else None,
    )


@router.get("/workspaces")
async def workspaces(asking: SomebodyNow, desk: DeskNow) -> wire.Workspaces:
    """Every workspace that the caller can name."""
    me = await described(asking, desk)
    return wire.Workspaces(workspaces=[_workspace(one) for one in me.workspaces])


@router.post("/device/authorize")
async def authorize(
    body: wire.AuthorizeDevice, desk: DeskNow, address: PublicAddress
) -> wire.AuthorizedDevice:
    """`osmosis auth login`: what to show, and what to ask with."""
    begun = await begin(body.device_name[: wire.LONGEST_DEVICE_NAME], desk, address)
    return wire.AuthorizedDevice(**begun.model_dump())


@router.post("/device/token")
async def device_token(body: wire.PollDevice, desk: DeskNow) -> wire.DeviceToken:
    """Whether the device was let in; as long as it is not, `error` says why, as RFC 8628 does."""
    try:
        created = await redeem(body.device_code, desk)
    except DeviceRefusedError as refusal:
        told = WireError(error=refusal.code, message=str(refusal))
        raise OsmosisError(400, told) from refusal
    async with desk.acting() as connection:
        people = await people_called(connection, [created.user])
    return wire.DeviceToken(
        token=created.token,
        token_id=created.id,
        expires_at=created.expires_at,
        user=wire.User(
            id=created.user,
            email=people.addresses[created.user],
            name=people.name(created.user),
        ),
    )


@router.delete("/tokens/{token}", status_code=204)
async def revoke(token: UUID, asking: SomebodyNow, desk: DeskNow) -> None:
    """`osmosis auth logout`."""
    await tokens.revoke(token, asking, desk)


def _verified(asking: Caller) -> wire.VerifiedWorkspace:
    role = asking.identity.roles.get(asking.workspace)
    return wire.VerifiedWorkspace(id=asking.workspace, name=asking.workspace, role=role)


def _workspace(entry: WorkspaceEntry) -> wire.Workspace:
    repository = entry.repository
    return wire.Workspace(
        id=entry.name,
        name=entry.name,
        connected_repo=None
        if repository is None
        else wire.ConnectedRepository(repo_full_name=repository),
    )
