"""Idempotency keys: what was begun under each, by whom, and the answer, for a day.

A record is begun before the work. While a process works it holds the record for a short time, and
again and again; where it dies, the record is free after that time, and whoever repeats the request
does the work again under the same ids. Times are the database's, so that replicas agree on them.
"""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import timedelta
from uuid import UUID

from sqlalchemy import ColumnElement, and_, delete, func, or_, select, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from assay_contracts.identifiers import new_id
from gateway.tables import idempotency_keys as keys
from gateway.vault import Vault

KEPT = timedelta(hours=24)
HELD = timedelta(seconds=30)

_GONE_AFTER = 2 * KEPT


@dataclass(frozen=True)
class Asked:
    """A request under a key: whose it is, and what tells it from another one."""

    workspace: str
    caller: str
    key: str
    content: bytes
    permissions: Collection[str]


@dataclass(frozen=True)
class Begun:
    """The work is the present request's; `repeated` where an earlier one may have done it."""

    id: UUID
    repeated: bool


@dataclass(frozen=True)
class Answered:
    """What was answered; `body` is None where the answer is not kept."""

    status: int
    media_type: str | None
    body: bytes | None


class Reused:
    """The key belongs to another request."""


class UnderWay:
    """A request under the key is being worked on."""


Found = Begun | Answered | Reused | UnderWay


class IdempotencyKeys:
    """The records of one installation."""

    def __init__(self, engine: AsyncEngine, vault: Vault) -> None:
        self._engine = engine
        self._vault = vault

    async def begin(self, asked: Asked) -> Found:
        """Begin a request's record, or say what became of the one that is there."""
        fingerprint = self._vault.fingerprint("assay idempotency", asked.content)
        while True:
            async with self._engine.begin() as connection:
                fresh = await _insert(connection, asked, fingerprint)
                if fresh is not None:
                    return Begun(fresh, repeated=False)
                found = await _look(connection, asked, fingerprint)
                if found is not None:
                    return found
            # It was forgotten between the two; then it can be begun.

    async def hold(self, record: UUID) -> None:
        """Keep others from the work for a further while."""
        await self._change(record, held_until=func.now() + HELD)

    async def release(self, record: UUID) -> None:
        """Let the work be done again: nobody knows how far it got."""
        await self._change(record, held_until=func.now())

    async def answer(self, record: UUID, answered: Answered) -> None:
        """Keep the answer."""
        await self._change(
            record,
            status=answered.status,
            media_type=answered.media_type,
            body=answered.body,
        )

    async def forget(self, record: UUID) -> None:
        """Let the key be used for something else: nothing was done under it."""
        async with self._engine.begin() as connection:
            await connection.execute(delete(keys).where(keys.c.id == record))

    async def sweep(self) -> int:
        """Delete what no request can ask for any more; how many records that were."""
        async with self._engine.begin() as connection:
            gone = await connection.execute(
                delete(keys).where(keys.c.begun_at < func.now() - _GONE_AFTER)
            )
        return gone.rowcount

    async def _change(self, record: UUID, **columns: object) -> None:
        async with self._engine.begin() as connection:
            await connection.execute(update(keys).where(keys.c.id == record).values(**columns))


async def _insert(connection: AsyncConnection, asked: Asked, fingerprint: bytes) -> UUID | None:
    """The id of a new record, also in place of one that is out of date; None where one holds."""
    begun = {
        "id": new_id(),
        "fingerprint": fingerprint,
        "permissions": " ".join(sorted(asked.permissions)),
        "begun_at": func.now(),
        "held_until": func.now() + HELD,
        "status": None,
        "media_type": None,
        "body": None,
    }
    found: UUID | None = await connection.scalar(
        insert(keys)
        .values(workspace=asked.workspace, caller=asked.caller, key=asked.key, **begun)
        .on_conflict_do_update(
            index_elements=["workspace", "caller", "key"],
            set_=begun,
            where=and_(keys.c.begun_at < func.now() - KEPT, _is_free()),
        )
        .returning(keys.c.id)
    )
    return found


async def _look(connection: AsyncConnection, asked: Asked, fingerprint: bytes) -> Found | None:
    """What the record says; a free one without an answer becomes the present request's."""
    same = (
        keys.c.workspace == asked.workspace,
        keys.c.caller == asked.caller,
        keys.c.key == asked.key,
    )
    row = (
        await connection.execute(
            select(keys, _is_free().label("free")).where(*same).with_for_update()
        )
    ).first()
    if row is None:
        return None
    if row.fingerprint != fingerprint:
        return Reused()
    may_see = set(row.permissions.split()) <= set(asked.permissions)
    if row.status is not None and may_see:
        return Answered(row.status, row.media_type, row.body)
    if row.status is None and not row.free:
        return UnderWay()
    await connection.execute(update(keys).where(*same).values(held_until=func.now() + HELD))
    return Begun(row.id, repeated=True)


def _is_free() -> ColumnElement[bool]:
    return or_(keys.c.status.is_not(None), keys.c.held_until < func.now())
