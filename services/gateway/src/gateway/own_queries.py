"""The gateway's own rows: secrets, encrypted as they arrive here, and names that are taken."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import (
    ColumnElement,
    RowMapping,
    and_,
    delete,
    func,
    or_,
    select,
    tuple_,
    update,
)
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection

from assay_contracts.http import SecretEntry
from assay_contracts.identifiers import new_run_name
from gateway.tables import run_names, secrets

WORKSPACE, USER, RUN = "workspace", "user", "run"
_IDENTITY = (secrets.c.workspace, secrets.c.scope, secrets.c.owner, secrets.c.name)


@dataclass(frozen=True)
class Record:
    """A secret's identity: `owner` is a user, a run, or empty for the workspace."""

    workspace: str
    scope: str
    owner: str
    name: str

    @property
    def associated(self) -> bytes:
        """What the encryption binds the record to."""
        return "\0".join((self.workspace, self.scope, self.owner, self.name)).encode()


@dataclass(frozen=True)
class Sealed:
    """A record's value, encrypted, and the key that it was encrypted with, encrypted too.

    `key_id` names the master key; None in a record from before there were several.
    """

    record: Record
    key_id: str | None
    wrapped_key: bytes
    sealed: bytes


async def write(connection: AsyncConnection, kept: Sealed, by: str, at: datetime) -> None:
    """Keep a value under its record, in place of an earlier one."""
    changed: dict[str, Any] = {
        "key_id": kept.key_id,
        "wrapped_key": kept.wrapped_key,
        "sealed": kept.sealed,
        "updated_at": at,
        "updated_by": by,
    }
    await connection.execute(
        insert(secrets)
        .values(**asdict(kept.record), created_at=at, **changed)
        .on_conflict_do_update(index_elements=["workspace", "scope", "owner", "name"], set_=changed)
    )


async def drop(connection: AsyncConnection, record: Record) -> bool:
    """Delete a record; False where there is none."""
    same = [secrets.c[name] == value for name, value in asdict(record).items()]
    gone = await connection.execute(delete(secrets).where(*same))
    return gone.rowcount > 0


async def drop_run(connection: AsyncConnection, run: UUID) -> None:
    """Delete what was given for one run alone."""
    await connection.execute(
        delete(secrets).where(secrets.c.scope == RUN, secrets.c.owner == str(run))
    )


async def runs_with_secrets(connection: AsyncConnection) -> Mapping[UUID, datetime]:
    """The runs that have secrets of their own, and since when (UTC)."""
    found = await connection.execute(
        select(secrets.c.owner, func.max(secrets.c.created_at).label("since"))
        .where(secrets.c.scope == RUN)
        .group_by(secrets.c.owner)
    )
    return {UUID(row.owner): row.since for row in found}


async def entries(connection: AsyncConnection, workspace: str, user: str) -> list[SecretEntry]:
    """The records of a workspace and of a user in it, without values."""
    columns = [secrets.c[name] for name in SecretEntry.model_fields]
    found = await connection.execute(
        select(*columns)
        .where(secrets.c.workspace == workspace, _seen_by(user))
        .order_by(secrets.c.name, secrets.c.scope)
    )
    return [SecretEntry(**row) for row in found.mappings()]


async def read(
    connection: AsyncConnection, workspace: str, user: str, run: UUID, names: Sequence[str]
) -> list[Sealed]:
    """What a run may use of `names`: its own, its submitter's and the workspace's."""
    own = and_(secrets.c.scope == RUN, secrets.c.owner == str(run))
    found = await connection.execute(
        select(secrets).where(
            secrets.c.workspace == workspace,
            secrets.c.name.in_(names),
            or_(_seen_by(user), own),
        )
    )
    return [
        Sealed(
            _record(row),
            row["key_id"],
            row["wrapped_key"],
            row["sealed"],
        )
        for row in found.mappings()
    ]


async def wrapped_otherwise(
    connection: AsyncConnection, key_id: str, *, after: Record | None, limit: int
) -> list[tuple[Record, str | None, bytes]]:
    """Records that are not wrapped under a master key, locked, in the order of their identities.

    Each with the id of the key that it is wrapped under and its wrapped data key; the values stay
    where they are.
    """
    identity = tuple_(*_IDENTITY)
    wanted = [secrets.c.key_id.is_distinct_from(key_id)]
    if after is not None:
        wanted.append(identity > tuple_(*asdict(after).values()))
    found = await connection.execute(
        select(*_IDENTITY, secrets.c.key_id, secrets.c.wrapped_key)
        .where(*wanted)
        .order_by(*_IDENTITY)
        .limit(limit)
        .with_for_update()
    )
    return [(_record(row), row["key_id"], row["wrapped_key"]) for row in found.mappings()]


async def rewrap(
    connection: AsyncConnection, record: Record, key_id: str, wrapped_key: bytes
) -> None:
    """Keep a record's data key as it is wrapped under another master key."""
    same = [secrets.c[name] == value for name, value in asdict(record).items()]
    await connection.execute(
        update(secrets).where(*same).values(key_id=key_id, wrapped_key=wrapped_key)
    )


async def records_under(connection: AsyncConnection) -> dict[str | None, int]:
    """How many records there are under each master key."""
    found = await connection.execute(
        select(secrets.c.key_id, func.count().label("records")).group_by(secrets.c.key_id)
    )
    return {row.key_id: row.records for row in found}


def _record(row: RowMapping) -> Record:
    return Record(row["workspace"], row["scope"], row["owner"], row["name"])


def _seen_by(user: str) -> ColumnElement[bool]:
    return or_(secrets.c.scope == WORKSPACE, and_(secrets.c.scope == USER, secrets.c.owner == user))


async def reserve_run_name(connection: AsyncConnection, workspace: str, run: UUID) -> str:
    """A name that no other run of the workspace has had."""
    while True:
        name = new_run_name()
        kept = await connection.scalar(
            insert(run_names)
            .values(workspace=workspace, name=name, run=run)
            .on_conflict_do_nothing()
            .returning(run_names.c.name)
        )
        if kept is not None:
            return name


async def hold_benchmark_name(connection: AsyncConnection, workspace: str, name: str) -> None:
    """Keep everybody else from adding a benchmark of this name until the transaction ends."""
    key = func.hashtextextended(f"benchmark\t{workspace}\t{name}", 0)
    await connection.execute(select(func.pg_advisory_xact_lock(key)))
