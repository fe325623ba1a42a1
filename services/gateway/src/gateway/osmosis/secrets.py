"""Secrets for the client: kept, listed and deleted by name and scope, never read back."""

from collections.abc import Sequence
from typing import Literal
from uuid import UUID, uuid5

from fastapi import APIRouter

from assay_contracts.http import SecretEntry
from assay_contracts.http import SetSecret as KeptSecret
from gateway import secret_endpoints
from gateway.access import Caller
from gateway.desk import Desk, DeskNow
from gateway.osmosis import wire
from gateway.osmosis.paging import Limit, paging
from gateway.osmosis.queries import People, people_called
from gateway.osmosis.scope import Reading, Running
from gateway.own_queries import USER, Record
from gateway.paging import Offset, page

router = APIRouter(prefix="/environment-secrets")

_NAMESPACE = UUID("0c5b7a0e-58f4-5b0f-8b83-6f5f5a1f0d9a")


@router.get("")
async def list_all(
    asking: Reading,
    desk: DeskNow,
    scope: Literal["all", "workspace", "user"] = "all",
    limit: Limit = 50,
    offset: Offset = 0,
) -> wire.Secrets:
    """`osmosis secret list`."""
    kept = (await secret_endpoints.list_all(asking, desk)).items
    chosen = [one for one in kept if scope in {"all", one.scope}]
    found = page(chosen[offset : offset + limit], len(chosen), offset)
    people = await _keepers(found.items, asking, desk)
    return wire.Secrets(
        environment_secrets=[_record(one, asking, people) for one in found.items], **paging(found)
    )


@router.post("")
async def keep(body: wire.SetSecret, asking: Running, desk: DeskNow) -> wire.Secret:
    """`osmosis secret set`: a value in place of an earlier one."""
    kept = KeptSecret(value=body.value, scope=body.scope)
    entry = await secret_endpoints.keep(body.name, kept, asking, desk)
    return _record(entry, asking, await _keepers([entry], asking, desk))


@router.delete("", status_code=204)
async def drop(body: wire.DeleteSecret, asking: Running, desk: DeskNow) -> None:
    """`osmosis secret delete`."""
    await secret_endpoints.drop(body.name, asking, desk, scope=body.scope)


async def _keepers(entries: Sequence[SecretEntry], asking: Caller, desk: Desk) -> People:
    async with desk.acting() as connection:
        return await people_called(connection, [asking.user, *(one.updated_by for one in entries)])


def _record(entry: SecretEntry, asking: Caller, people: People) -> wire.Secret:
    """Who made a secret is known of one's own, and of one that nobody has changed since."""
    owner = asking.user if entry.scope == USER else ""
    record = Record(asking.workspace, entry.scope, owner, entry.name)
    creator = owner or (entry.updated_by if entry.created_at == entry.updated_at else None)
    return wire.Secret(
        id=str(uuid5(_NAMESPACE, record.associated.decode())),
        name=entry.name,
        scope=entry.scope,
        created_at=entry.created_at,
        updated_at=entry.updated_at,
        creator_name=None if creator is None else people.name(creator),
        updater_name=people.name(entry.updated_by),
    )
