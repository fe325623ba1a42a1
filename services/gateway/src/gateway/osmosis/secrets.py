"""Secrets for the client: kept, listed and deleted by name and scope, never read back."""

from typing import Literal
from uuid import UUID, uuid5

from fastapi import APIRouter

from assay_contracts.http import SecretEntry
from assay_contracts.http import SetSecret as KeptSecret
from gateway import secret_endpoints
from gateway.access import Caller
from gateway.desk import DeskNow
from gateway.osmosis import wire
from gateway.osmosis.paging import Limit, paging
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
    return wire.Secrets(
        environment_secrets=[_record(one, asking) for one in found.items], **paging(found)
    )


@router.post("")
async def keep(body: wire.SetSecret, asking: Running, desk: DeskNow) -> wire.Secret:
    """`osmosis secret set`: a value in place of an earlier one."""
    kept = KeptSecret(value=body.value, scope=body.scope)
    return _record(await secret_endpoints.keep(body.name, kept, asking, desk), asking)


@router.delete("", status_code=204)
async def drop(body: wire.DeleteSecret, asking: Running, desk: DeskNow) -> None:
    """`osmosis secret delete`."""
    await secret_endpoints.drop(body.name, asking, desk, body.scope)


def _record(entry: SecretEntry, asking: Caller) -> wire.Secret:
    owner = asking.user if entry.scope == USER else ""
    record = Record(asking.workspace, entry.scope, owner, entry.name)
    is_first = entry.created_at == entry.updated_at
    return wire.Secret(
        id=str(uuid5(_NAMESPACE, record.associated.decode())),
        name=entry.name,
        scope=entry.scope,
        created_at=entry.created_at,
        updated_at=entry.updated_at,
        creator_name=owner or (entry.updated_by if is_first else None),
        updater_name=entry.updated_by,
    )
